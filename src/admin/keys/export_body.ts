/** The fields that the routes which export a license share. */
import * as v from "valibot";
import { described } from "../../base/answer_fields.ts";
import { numberField, parsedField } from "../../base/rule.ts";
import { DAYS_BY_DEFAULT, EXPORTED_FINGERPRINT, SIGNED_DAYS } from "../../licensing/signed_licenses/mod.ts";

export const EXPORT_BODY = {
  days: v.optional(
    described(numberField(SIGNED_DAYS), `How many days the license is valid; ${DAYS_BY_DEFAULT}`),
  ),
  fingerprint: v.nullish(parsedField(EXPORTED_FINGERPRINT)),
};
