/** Fields of the bodies of requests; `list_fields.ts` has the fields of lists. */
import * as v from "valibot";
import { REASON_TEXT } from "../../../audit/mod.ts";
import { MONTH } from "../../../calendar.ts";
import { EXPIRY, MODES, MONTHLY_LIMIT, TEXTS, TIERS } from "../../../licensing/mod.ts";
import { inJsonSchema, numberField, parsedField, wordField } from "../../../rule.ts";

/** The reason of a change, for the audit log. */
export const REASON = { reason: v.optional(parsedField(REASON_TEXT)) } as const;

/** Returns the schema of a change: at least one of the entries, and an optional reason. */
export function changeOf<Entries extends v.ObjectEntries>(entries: Entries) {
  const names = Object.keys(entries);
  return v.pipe(
    v.strictObject({ ...entries, ...REASON }),
    v.check((values) => names.some((name) => name in values), `give at least one of ${names.join(", ")}`),
    // Not `anyOf` with `required`: from these, generators of clients would make fields without a type.
    inJsonSchema({ minProperties: 1, dependentSchemas: { reason: { minProperties: 2 } } }),
  );
}

/** A tier. */
export const TIER_FIELD = wordField(TIERS);

/** The mode of a key. */
export const MODE_FIELD = wordField(MODES);

/** The expiry of a license. */
export const EXPIRY_FIELD = parsedField(EXPIRY);

/** The monthly limit of a license; null means the tier's own. */
export const LIMIT_FIELD = v.pipe(
  v.nullable(numberField(MONTHLY_LIMIT)),
  v.description("Inferences a month; null means the tier's own limit"),
);

/** The operator's own name for a license. */
export const EXTERNAL_ID_FIELD = parsedField(TEXTS.external_id, {
  description: "Your own name for the license, such as an order number; unique, and compared as bytes",
});

/** A calendar month, `2026-11`. */
export const MONTH_FIELD = parsedField(MONTH);
