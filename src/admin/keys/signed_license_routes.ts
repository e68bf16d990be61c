/** Signs licenses for customers without a network. */
import * as v from "valibot";
import { isRefusal } from "../../refusal.ts";
import { numberField, parsedField } from "../../rule.ts";
import {
  EXPORT_DAYS,
  NONCE,
  renderExport,
  SIGNED_FINGERPRINT,
  USUAL_EXPORT_DAYS,
} from "../../signed_licenses/mod.ts";
import { described, identifier, timestamp } from "../../wire/mod.ts";
import { REASON } from "../frame/api/fields.ts";
import { keyFor } from "../frame/api/path_ids.ts";
import { route, titled } from "../frame/api/route.ts";

const EXPORTED_LICENSE = titled("ExportedLicense", {
  license: described(v.string(), "A compact JWS"),
  file: described(v.string(), "The content of the file for the customer"),
  kid: described(v.string(), "The key that signed it"),
  jti: described(v.string(), "The id of this signed license"),
  expires_at: timestamp(),
  machine_id: described(v.nullable(identifier("mch")), "The machine, if the license counts machines"),
  warning: described(v.nullable(v.string()), "Says until when the machine keeps its place"),
});

export const exportLicense = route("POST /keys/:id/license", "keys:issue", {
  id: "exportLicense",
  summary: "Sign the license of a key for a customer without a network",
  description:
    "The days of the tier do not limit it, but the expiry of the license and of the key does. A later revocation does not end it. A " +
    "restricted token may not choose more days than a year has. A license with a number of machines needs a fingerprint of 8 to " +
    "200 characters: the machine gets a place of the license until the end of the file, also if it is released earlier.",
  path: keyFor("export license"),
  body: v.strictObject({
    days: v.optional(
      described(numberField(EXPORT_DAYS), "How many days the license is valid"),
      USUAL_EXPORT_DAYS,
    ),
    fingerprint: v.nullish(parsedField(SIGNED_FINGERPRINT)),
    nonce: v.nullish(parsedField(NONCE)),
    ...REASON,
  }),
  success: { status: 201, schema: EXPORTED_LICENSE, description: "The signed license" },
  codes: ["CONFLICT"],
  async run({ licenseSigner }, { uuid: keyUuid, actor, now, restriction, body }) {
    const signed = await licenseSigner.export({
      keyUuid,
      actor,
      now,
      restriction,
      days: body.days,
      fingerprint: body.fingerprint ?? undefined,
      nonce: body.nonce ?? undefined,
    });
    return isRefusal(signed) ? signed : renderExport(signed);
  },
});
