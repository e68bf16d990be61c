/**
 * Schemas for the fields of requests. They accept the same values as the commands' options. A message begins with the
 * field's name.
 * `list_fields.ts` has the fields of lists.
 */
import * as v from "valibot";
import { REASON_TEXT } from "../../../audit/mod.ts";
import { MONTH } from "../../../calendar.ts";
import { lineOf, type TextRule } from "../../../database/mod.ts";
import { EXPIRY, MODES, MONTHLY_LIMIT, parseEmail, TEXTS, TIERS } from "../../../licensing/mod.ts";
import type { NumberRule, Rule } from "../../../rule.ts";
import { inJsonSchema, type Json } from "../../../wire/mod.ts";

/** Returns the schema of one line of text. */
export function lineField(name: string, least: number, most: number) {
  return ruledField(name, lineOf(least, most));
}

/** Returns the schema of a text of accounts and licenses. */
export function textField(name: keyof typeof TEXTS) {
  return ruledField(name, TEXTS[name]);
}

/** Returns the schema of a text that stands for another value; `more` are further keywords for the document. */
export function parsedField<Value>(name: string, { must, keywords, parse }: Rule<Value>, more: Json = {}) {
  const message = `${name} ${must}`;
  return v.pipe(
    v.string(message),
    v.check((text) => parse(text) !== undefined, message),
    inJsonSchema({ ...keywords, ...more }),
    v.transform((text) => parse(text) as Value),
  );
}

/** Returns the schema of a number in JSON. */
export function numberField(name: string, { must, keywords, allows }: NumberRule) {
  const message = `${name} ${must}`;
  return v.pipe(v.number(message), v.check(allows, message), inJsonSchema(keywords));
}

/** Returns the schema of a text that meets the rule. */
export function ruledField(name: string, { must, range: [minLength, maxLength], allows }: TextRule) {
  const message = `${name} ${must}`;
  return v.pipe(v.string(message), v.check(allows, message), inJsonSchema({ minLength, maxLength }));
}

/** The reason of a change, for the audit log. */
export const REASON = { reason: v.optional(ruledField("reason", REASON_TEXT)) } as const;

/** Returns the schema of a change with at least one of the values, and a reason if there is one. */
export function changeOf<Entries extends v.ObjectEntries>(entries: Entries) {
  const names = Object.keys(entries);
  return v.pipe(
    v.strictObject({ ...entries, ...REASON }),
    v.check((values) => names.some((name) => name in values), `give at least one of ${names.join(", ")}`),
    // Not `anyOf` with `required`: generators of clients then leave the type of the fields open.
    inJsonSchema({ minProperties: 1, dependentSchemas: { reason: { minProperties: 2 } } }),
  );
}

/** An e-mail address, in lower case as accounts have it. */
export const EMAIL_FIELD = v.pipe(
  textField("email"),
  inJsonSchema({ format: "email" }),
  v.transform((text) => parseEmail(text) ?? ""),
);

/** A tier. */
export const TIER_FIELD = v.picklist(TIERS, `tier must be one of ${TIERS.join(", ")}`);

/** The mode of a key. */
export const MODE_FIELD = v.picklist(MODES, "mode must be live or test");

/** The expiry of a license. */
export const EXPIRY_FIELD = parsedField("expires_at", EXPIRY);

/** The monthly limit of a license; null means the tier's own. */
export const LIMIT_FIELD = v.pipe(
  v.nullable(numberField("monthly_limit", MONTHLY_LIMIT)),
  v.description("Inferences a month; null means the tier's own limit"),
);

/** The operator's own name for a license. */
export const EXTERNAL_ID_FIELD = v.pipe(
  textField("external_id"),
  v.description("Your own name for the license, such as an order number; unique, and compared as bytes"),
);

/** A calendar month, `2026-11`. */
export const MONTH_FIELD = parsedField("month", MONTH);
