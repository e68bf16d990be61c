/** The request that the form of a new key means. The rules of its fields are those of the API. */
import * as v from "valibot";
import type { IssueRequest } from "../../keys/mod.ts";
import { TEXTS } from "../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { parsedField } from "../../rule.ts";
import { EXTERNAL_ID_FIELD, MODE_FIELD, TIER_FIELD } from "../frame/api/fields.ts";
import { parseForm, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import type { Visit } from "../frame/console/visit.ts";
import { EXPIRY_ENTRIES, expiryOf, LIMIT_ENTRY } from "./license_fields.tsx";

const ENTRIES = {
  email: v.pipe(TEXT, parsedField(TEXTS.email)),
  tier: v.pipe(TEXT, TIER_FIELD),
  name: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(TEXTS.name))),
  organization: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(TEXTS.organization))),
  external_id: v.pipe(TEXT_OR_NOTHING, v.optional(EXTERNAL_ID_FIELD)),
  mode: v.pipe(TEXT, MODE_FIELD),
  ...EXPIRY_ENTRIES,
  ...LIMIT_ENTRY,
};

/** Parses the form, or refuses it with the first error of each wrong field. */
export function parseIssueRequest(visit: Visit): IssueRequest | Refusal {
  const { form, now } = visit;
  const parsed = parseForm(ENTRIES, visit);
  const never = form.get("never") ?? undefined;
  const expiresAt = expiryOf({ last_day: form.get("last_day") ?? "", never }, now);
  if (isRefusal(parsed) || isRefusal(expiresAt)) {
    const wrong = [parsed, expiresAt].flatMap((part) => (isRefusal(part) ? (part.fields ?? []) : []));
    const count = wrong.length === 1 ? "a field needs" : `${wrong.length} fields need`;
    return refuse("INVALID_REQUEST", `No key was issued: ${count} a change`, { fields: wrong });
  }
  const { email, tier, name, organization, mode, external_id: externalId, monthly_limit } = parsed.fields;
  return { email, tier, name, organization, mode, externalId, monthlyLimit: monthly_limit, expiresAt, now };
}
