/**
 * The values of a license, such as `channels: 64`: those of its tier, and its own before them. The vendor's program decides
 * what they mean; the service only passes them on, as `entitlements`.
 */
import * as v from "valibot";
import { fieldsOf } from "../base/answer_fields.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { renderCount } from "../base/render_count.ts";
import type { ParsingRule } from "../base/rule.ts";
import { redactKeys } from "../base/secrets/mod.ts";
import { type Fragment, isStorableText, type Sql } from "../database/mod.ts";
import { byName, FEATURE } from "./features.ts";

export type Entitlement = number | string | boolean;

/** Values by their names. */
export type Entitlements = Readonly<Record<string, Entitlement>>;

/** A change of values, by their names; null removes a value, so that the one of the tier counts. */
export type EntitlementChanges = Readonly<Record<string, Entitlement | null>>;

/** What decides the values of a license. */
export interface Entitled {
  readonly tierEntitlements: Entitlements;
  readonly ownEntitlements: Entitlements;
}

/** The most values of a license, and of a tier; a license gets those of both. */
export const MOST_ENTITLEMENTS = 32;

/** The most bytes of these values, as JSON. */
export const MOST_ENTITLEMENT_BYTES = 4_096;

/** The constraint of both bounds of a license. */
export const ENTITLEMENTS_BOUNDED = "own_entitlements_bounded";

/** Refuses more or longer values than `who` can have: a license, or a tier. */
export function refuseTooManyEntitlements(
  what: string,
  who: "license" | "tier",
  field: "own_entitlements" | "entitlements",
): Refusal {
  const why = `a ${who} has at most ${MOST_ENTITLEMENTS} values with ${renderCount(MOST_ENTITLEMENT_BYTES)} bytes in all; remove some`;
  return refuse("INVALID_REQUEST", `Cannot ${what}: ${why}`, { fields: [{ field, error: why }] });
}

/** Returns the values that a license has, in the order of their names. */
export function entitlementsOf({ tierEntitlements, ownEntitlements }: Entitled): Entitlements {
  return sorted({ ...tierEntitlements, ...ownEntitlements });
}

/** The database returns names in an order of its own. */
function sorted(values: Entitlements): Entitlements {
  return Object.fromEntries(Object.entries(values).sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Says a value in words: a text in quotes, so that it differs from a number. */
export function describeEntitlement(value: Entitlement | undefined): string {
  return value === undefined ? "none" : JSON.stringify(value);
}

/** Tells whether there are more or longer values than a license, or a tier, can have. */
export function areTooMany(values: Entitlements): boolean {
  return Object.keys(values).length > MOST_ENTITLEMENTS || bytesOf(values) > MOST_ENTITLEMENT_BYTES;
}

function bytesOf(values: EntitlementChanges): number {
  return Buffer.byteLength(JSON.stringify(values));
}

/** Renders values as {@linkcode OWN_ENTITLEMENTS} reads them, such as `channels=64, region=eu`. */
export function renderEntitlements(values: Entitlements): string {
  return Object.entries(sorted(values))
    .map(([name, value]) => `${name}=${isPlain(value) ? value : JSON.stringify(value)}`)
    .join(", ");
}

/** Tells whether a value can be written without quotes. */
function isPlain(value: Entitlement): boolean {
  return (
    typeof value !== "string" || (value !== "" && !/^\s|\s$|[",]/.test(value) && parseValue(value) === value)
  );
}

/** A name, and a value that is either in quotes, as JSON has them, or without any quote or comma. */
const VALUE_TEXT = /\s*([^\s=]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^",]*?)\s*(?:,|$)/y;

/** Reads values as one text; an empty value is null. Undefined if the text is wrong. */
function parseValues(text: string): EntitlementChanges | undefined {
  const values: Record<string, Entitlement | null> = {};
  VALUE_TEXT.lastIndex = 0;
  while (VALUE_TEXT.lastIndex < text.length) {
    const [, name = "", written = ""] = VALUE_TEXT.exec(text) ?? [];
    if (FEATURE.parse(name) === undefined || Object.hasOwn(values, name)) return undefined;
    values[name] = written === "" ? null : parseValue(written);
  }
  return text.trim() === "" ? undefined : values;
}

/** Returns the value of a text: a number, true, false, a text in quotes, or else the text itself, such as `1.10`. */
function parseValue(text: string): Entitlement {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "number") return String(value) === text ? value : text;
    if (typeof value === "boolean" || typeof value === "string") return value;
  } catch {
    // A text without quotes.
  }
  return text;
}

const FORM =
  `values separated by commas, such as channels=64, region=eu: at most ${MOST_ENTITLEMENTS} with ` +
  `${renderCount(MOST_ENTITLEMENT_BYTES)} bytes, each a number of at most 15 digits, true, false, or a text of at most 1,000 ` +
  `characters without an API key, in quotes if it has a comma; each name once, ${FEATURE.expects}`;

function valuesRule<Values>(
  schema: v.GenericSchema<EntitlementChanges, Values>,
  more = "",
): ParsingRule<Values> {
  return {
    expects: `${FORM}${more}`,
    parse(text) {
      const parsed = v.safeParse(schema, parseValues(text));
      return parsed.success ? parsed.output : undefined;
    },
  };
}

/** JSON and the database write such a number in the same few digits, and no digit is lost. */
function isExact(number: number): boolean {
  const size = Math.abs(number);
  return number === 0 || (size >= 1e-6 && size <= Number.MAX_SAFE_INTEGER);
}

const MUST =
  "must be a number of at most 15 digits, true, false, or a text of at most 1,000 printable characters and no API key";

const entitlement = v.union(
  [
    v.pipe(v.number(), v.check(isExact, MUST)),
    v.boolean(),
    v.pipe(v.string(), v.maxLength(1_000, MUST), v.check(isAllowed, MUST)),
  ],
  MUST,
);

/** A text that looks like a key would be stored in clear, and shown. */
function isAllowed(text: string): boolean {
  return /^[^\p{C}\p{Zl}\p{Zp}]*$/u.test(text) && isStorableText(text) && redactKeys(text) === text;
}

/** Returns the schema of values by their names. */
function valuesField<Value extends v.GenericSchema<unknown, unknown>>(value: Value) {
  return v.pipe(
    byName(value, MOST_ENTITLEMENTS),
    v.check(
      (values) => bytesOf(values as EntitlementChanges) <= MOST_ENTITLEMENT_BYTES,
      `must have at most ${MOST_ENTITLEMENT_BYTES} bytes`,
    ),
  );
}

/** The values of a new license beside those of its tier. */
export const OWN_ENTITLEMENTS_FIELD = valuesField(entitlement);

/** The schema of a change of values. */
export const ENTITLEMENT_CHANGES_FIELD = valuesField(v.nullable(entitlement));

/** The rule for the values of a new license as one text, for commands, forms and CSV. */
export const OWN_ENTITLEMENTS = valuesRule(OWN_ENTITLEMENTS_FIELD);

/** The rule for changes of values as one text. */
export const ENTITLEMENT_CHANGES = valuesRule(
  ENTITLEMENT_CHANGES_FIELD,
  "; nothing behind = removes the value",
);

const field = fieldsOf<Entitled>();

/** The schema of values in answers. */
export const valuesSchema = v.record(v.string(), v.union([v.number(), v.string(), v.boolean()]));

/** The values of a license, for every answer to operators that has its tier. */
export const ENTITLEMENTS_FIELDS = {
  entitlements: field(
    valuesSchema,
    entitlementsOf,
    "The values that the license has: its own, and those of its tier",
  ),
  own_entitlements: field(
    valuesSchema,
    ({ ownEntitlements }) => sorted(ownEntitlements),
    "The values of the license itself; the others are those of its tier",
  ),
} as const;

/**
 * Returns SQL that adds the values of a license to a `jsonb` of the audit log, if it has some of its own. Texts are left out:
 * they can name a person, who can be erased from the license, but not from the log.
 */
export function withEntitlements(sql: Sql, row: Fragment): Fragment {
  return sql`|| case when ${row}.own_entitlements = '{}' then '{}'::jsonb
                     else jsonb_build_object('own_entitlements', logged_values(${row}.own_entitlements)) end`;
}

/** Returns SQL with the names of the values that are or were a text, and differ, each behind the word `value`. */
export function changedTexts(sql: Sql, before: Fragment, after: Fragment): Fragment {
  return sql`
    select 'value ' || name from jsonb_object_keys(${before} || ${after}) as name
     where ${before}->name is distinct from ${after}->name
       and 'string' in (jsonb_typeof(${before}->name), jsonb_typeof(${after}->name))`;
}
