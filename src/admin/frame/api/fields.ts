/** Fields of requests: of bodies, which have JSON values, and of lists, whose texts the schema turns into values. */
import * as v from "valibot";
import { NEEDED_REASON_TEXT, REASON_TEXT } from "../../../audit/mod.ts";
import { described, schemasOf } from "../../../base/answer_fields.ts";
import { END, MONTH } from "../../../base/calendar.ts";
import type { ConditionValue, ListConditions } from "../../../base/condition.ts";
import { type Refusal, refuse } from "../../../base/refusal.ts";
import { booleanField, inJsonSchema, numberField, parsedField, wordField } from "../../../base/rule.ts";
import type { Database } from "../../../database/mod.ts";
import {
  ALLOWANCE_FIELDS,
  EXPIRY,
  MODES,
  MONTHLY_LIMIT,
  SEARCH_TEXT,
  SEARCHED,
  type Search,
  searchAccounts,
  TEXT_RULES,
  TIERS,
  TOO_MANY_MATCH,
} from "../../../licensing/mod.ts";

/** The reason of a change, for the audit log. */
export const REASON = { reason: v.optional(parsedField(REASON_TEXT)) } as const;

/** The reason of a change that needs one. */
export const NEEDED_REASON = { reason: parsedField(NEEDED_REASON_TEXT) } as const;

/** Allows an expiry that is earlier than the present one. */
export const SHORTEN_FIELD = described(
  booleanField(),
  "Allows an end that is earlier than the present one, which is refused otherwise",
);

/** A reason alone is no change, as JSON Schema says it. */
export const REASON_IS_NO_CHANGE = { reason: { minProperties: 2 } } as const;

/** Returns the schema of a change: at least one of the entries, and an optional reason. */
export function changeOf<Entries extends v.ObjectEntries>(entries: Entries) {
  const names = Object.keys(entries);
  return v.pipe(
    v.strictObject({ ...entries, ...REASON }),
    v.check((values) => names.some((name) => name in values), `give at least one of ${names.join(", ")}`),
    // Not `anyOf` with `required`: from these, generators of clients would make fields without a type.
    inJsonSchema({ minProperties: 1, dependentSchemas: REASON_IS_NO_CHANGE }),
  );
}

export const TIER_FIELD = wordField(TIERS);
export const MODE_FIELD = wordField(MODES);
export const EXPIRY_FIELD = parsedField(EXPIRY);

/** The end of updates of a license. */
export const UPDATES_FIELD = parsedField(END, {
  description: "Versions of models that are registered later are not for the license; null: every version is",
});

/** The monthly limit of a license; null means the tier's own. */
export const LIMIT_FIELD = described(
  v.nullable(numberField(MONTHLY_LIMIT)),
  "Inferences a month; null means the tier's own limit",
);

/** What a license allows its clients, in requests. Seat minutes need a machine limit; `licensing/` checks that. */
export const ALLOWANCES_BODY = v.partial(v.object(schemasOf(ALLOWANCE_FIELDS))).entries;

/** The operator's own name for a license. */
export const EXTERNAL_ID_FIELD = parsedField(TEXT_RULES.external_id, {
  description: "Your own name for the license, such as an order number; unique, and compared as bytes",
});

/** A calendar month, `2026-11`, in a query. */
export const MONTH_ENTRY = { month: v.optional(parsedField(MONTH)) } as const;

/** The text for which a list is searched. */
export const SEARCH_FIELD = parsedField(SEARCH_TEXT, {
  description: `Only rows that match: ${SEARCHED}. Refused if ${TOO_MANY_MATCH}`,
});

/**
 * Searches for the parameter `search` of a list. Refuses a text that too many accounts match: a program would not see
 * that the list is incomplete.
 */
export async function findSearch(
  database: Database,
  text: string | undefined,
): Promise<Search | undefined | Refusal> {
  const search = text === undefined ? undefined : await searchAccounts(database, text);
  if (!search?.isTooWide) return search;
  const error = `${TOO_MANY_MATCH}: search for more or longer words`;
  return refuse("INVALID_REQUEST", `Cannot search: ${error}`, { fields: [{ field: "search", error }] });
}

type ConditionFields<Of extends ListConditions> = {
  readonly [Name in keyof Of]: v.OptionalSchema<v.GenericSchema<string, ConditionValue<Of[Name]>>, undefined>;
};

/** Returns the conditions of a list as the fields of its address. */
export function conditionFields<const Of extends ListConditions>(conditions: Of): ConditionFields<Of> {
  const fields = Object.entries(conditions).map(([name, { says, reader, default: usual }]) => {
    const description = says.charAt(0).toUpperCase() + says.slice(1);
    const more = { description, ...(usual !== undefined && { default: usual }) };
    const field =
      "parse" in reader ? parsedField(reader, more) : v.pipe(wordField(reader), inJsonSchema(more));
    return [name, v.optional(field)];
  });
  return Object.fromEntries(fields);
}
