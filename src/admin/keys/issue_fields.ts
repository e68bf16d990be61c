/**
 * The fields of the form that issues a key: the entered text, and the request that it stands for. The rules are those
 * of the API.
 */
import * as v from "valibot";
import { toTimestamp } from "../../calendar.ts";
import type { IssueRequest } from "../../keys/mod.ts";
import { oneYearAfter } from "../../licensing/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { EMAIL_FIELD, EXTERNAL_ID_FIELD, MODE_FIELD, TIER_FIELD, textField } from "../frame/api/fields.ts";
import {
  EXPIRY_ENTRIES,
  expiryOf,
  LIMIT_ENTRY,
  MOST_ENTERED,
  TEXT,
  TEXT_OR_NOTHING,
  toHint,
} from "../frame/console/attempt.ts";

const FIELDS = v.object({
  email: v.pipe(TEXT, EMAIL_FIELD),
  tier: v.pipe(TEXT, v.nonEmpty("Choose a tier"), TIER_FIELD),
  name: v.pipe(TEXT_OR_NOTHING, v.optional(textField("name"))),
  organization: v.pipe(TEXT_OR_NOTHING, v.optional(textField("organization"))),
  external_id: v.pipe(TEXT_OR_NOTHING, v.optional(EXTERNAL_ID_FIELD)),
  mode: v.pipe(TEXT, MODE_FIELD),
  ...EXPIRY_ENTRIES,
  ...LIMIT_ENTRY,
});

export type IssueField = keyof typeof FIELDS.entries;
export type Entered = Readonly<Partial<Record<IssueField, string>>>;
export type FieldErrors = Readonly<Partial<Record<IssueField, string>>>;

/** Returns the fields as they were entered; a longer text is wrong in every field. */
export function readEntered(form: URLSearchParams): Entered {
  const textOf = (name: string) => form.get(name)?.slice(0, MOST_ENTERED);
  return Object.fromEntries(Object.keys(FIELDS.entries).map((name) => [name, textOf(name)]));
}

/** Returns the request that the fields mean, or the first error of each wrong field. */
export function parseIssueFields(
  entered: Entered,
  now: Date,
): { readonly request: IssueRequest } | { readonly errors: FieldErrors } {
  const parsed = v.safeParse(FIELDS, entered);
  const expiresAt = expiryOf({ last_day: entered.last_day ?? "", never: entered.never }, now);
  if (parsed.success && !isRefusal(expiresAt)) {
    const {
      monthly_limit: monthlyLimit,
      external_id: externalId,
      last_day,
      never,
      ...fields
    } = parsed.output;
    return { request: { ...fields, expiresAt, monthlyLimit, externalId, now } };
  }
  const { nested = {} } = parsed.success ? {} : v.flatten<typeof FIELDS>(parsed.issues);
  const errors = Object.entries(nested).map(([name, [first = ""] = []]) => [name, toHint(name, first)]);
  const { fields = [] } = isRefusal(expiresAt) ? expiresAt : {};
  return { errors: Object.fromEntries([...errors, ...fields.map(({ field, error }) => [field, error])]) };
}

/** The day that the form proposes, so that the key works for at least a year. */
export function defaultLastDay(now: Date): string {
  return toTimestamp(oneYearAfter(now)).slice(0, 10);
}
