/**
 * Schemas for the fields of requests. They accept the same values as the commands' options. A message begins with the
 * field's name.
 * `list_fields.ts` has the fields of lists.
 */
import * as v from "valibot";
import { type Month, monthOf, parseTimestamp } from "../../../calendar.ts";
import { lineOf, type TextRule } from "../../../database/mod.ts";
import { EXPIRY, MODES, parseEmail, parseExpiry, TEXTS, TIERS } from "../../../licensing/mod.ts";
import { inJsonSchema } from "../../../wire/mod.ts";

/** Returns the schema of one line of text. */
export function lineField(name: string, least: number, most: number) {
  return ruledField(name, lineOf(least, most));
}

/** Returns the schema of a text of accounts and licenses. */
export function textField(name: keyof typeof TEXTS) {
  return ruledField(name, TEXTS[name]);
}

/** Returns the schema of a text that stands for another value. `parse` returns undefined for a wrong text. */
export function parsedField<Value>(
  message: string,
  { parse, ...keywords }: { parse(text: string): Value | undefined } & Readonly<Record<string, unknown>>,
) {
  return v.pipe(
    v.string(message),
    v.check((text) => parse(text) !== undefined, message),
    inJsonSchema(keywords),
    v.transform((text) => parse(text) as Value),
  );
}

/** Returns the schema of a text that meets the rule. */
export function ruledField(name: string, { must, range: [minLength, maxLength], allows }: TextRule) {
  const message = `${name} ${must}`;
  return v.pipe(v.string(message), v.check(allows, message), inJsonSchema({ minLength, maxLength }));
}

/** The reason of a change, for the audit log. */
export const REASON = { reason: v.optional(lineField("reason", 0, 2_000)) } as const;

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

const WRONG_EXPIRY = "expires_at must be an ISO 8601 timestamp such as 2027-01-31T00:00:00Z, or never";

/** The expiry of a license. */
export const EXPIRY_FIELD = parsedField(WRONG_EXPIRY, {
  parse: parseExpiry,
  // Not `anyOf` of formats, which some generators of clients cannot read.
  pattern: EXPIRY.source,
  description: "An ISO 8601 timestamp, or `never`",
  examples: ["2027-01-31T00:00:00Z", "never"],
});

const WRONG_LIMIT = "monthly_limit must be a whole number, at least 0, or null";

/** The monthly limit of a license; null means the tier's own. */
export const LIMIT_FIELD = v.pipe(
  v.nullable(v.pipe(v.number(WRONG_LIMIT), v.safeInteger(WRONG_LIMIT), v.minValue(0, WRONG_LIMIT))),
  v.description("Inferences a month; null means the tier's own limit"),
);

/** The operator's own name for a license. */
export const EXTERNAL_ID_FIELD = v.pipe(
  textField("external_id"),
  v.description("Your own name for the license, such as an order number; unique, and compared as bytes"),
);

const WRONG_MONTH = "month must be a month such as 2026-11";

/** A calendar month, `2026-11`. */
export const MONTH_FIELD = parsedField(WRONG_MONTH, {
  parse: parseMonth,
  type: "string",
  pattern: "^[0-9]{4}-(0[1-9]|1[0-2])$",
  description: "A month such as 2026-11",
});

function parseMonth(text: string): Month | undefined {
  const first = /^\d{4}-\d\d$/.test(text) ? parseTimestamp(`${text}-01`) : undefined;
  return first && monthOf(first.getTime());
}
