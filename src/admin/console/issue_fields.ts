/** The fields of the form that issues a key: what people enter, and the request that it means. The rules are the API's. */
import * as v from "valibot";
import { parseTimestamp, toTimestamp } from "../../calendar.ts";
import type { IssueRequest } from "../../keys/mod.ts";
import { NEVER_EXPIRES, oneYearAfter } from "../../licensing/mod.ts";
import { EMAIL_FIELD, EXTERNAL_ID_FIELD, lineField, MODE_FIELD, TIER_FIELD } from "../api/fields.ts";
import { TEXT, TEXT_OR_NOTHING, toHint } from "./attempt.ts";

const DAY = /^\d{4}-\d\d-\d\d$/;
const WRONG_LIMIT = "monthly_limit must be a whole number; leave it empty for the tier's limit";

const FIELDS = v.object({
  email: v.pipe(TEXT, EMAIL_FIELD),
  tier: v.pipe(TEXT, TIER_FIELD),
  name: v.pipe(TEXT_OR_NOTHING, v.optional(lineField("name", 1, 200))),
  organization: v.pipe(TEXT_OR_NOTHING, v.optional(lineField("organization", 0, 200))),
  external_id: v.pipe(TEXT_OR_NOTHING, v.optional(EXTERNAL_ID_FIELD)),
  mode: v.pipe(TEXT, MODE_FIELD),
  last_day: v.optional(v.string()),
  never: v.optional(v.string()),
  monthly_limit: v.pipe(
    TEXT_OR_NOTHING,
    v.check((text = "0") => /^\d+$/.test(text) && Number.isSafeInteger(Number(text)), WRONG_LIMIT),
    v.transform((text) => (text === undefined ? undefined : Number(text))),
  ),
});

export type IssueField = keyof typeof FIELDS.entries;
export type Entered = Readonly<Partial<Record<IssueField, string>>>;
export type FieldErrors = Readonly<Partial<Record<IssueField, string>>>;

/** Returns the fields as they were entered. */
export function readEntered(form: URLSearchParams): Entered {
  return Object.fromEntries(Object.keys(FIELDS.entries).map((name) => [name, form.get(name) ?? undefined]));
}

/** Returns the request that the fields mean, or the first error of each wrong field. */
export function parseIssueFields(
  entered: Entered,
  now: Date,
): { readonly request: IssueRequest } | { readonly errors: FieldErrors } {
  const parsed = v.safeParse(FIELDS, entered);
  const expiresAt = entered.never === undefined ? endOf(entered.last_day ?? "") : NEVER_EXPIRES;
  const isPast = expiresAt !== undefined && expiresAt <= now;
  if (parsed.success && expiresAt !== undefined && !isPast) {
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
  if (expiresAt === undefined) errors.push(["last_day", "It must be a day such as 2027-01-31"]);
  if (isPast) errors.push(["last_day", "It must not be in the past"]);
  return { errors: Object.fromEntries(errors) };
}

/** The day that the form proposes, so that the key works for at least a year. */
export function defaultLastDay(now: Date): string {
  return toTimestamp(oneYearAfter(now)).slice(0, 10);
}

/** Returns the last second of a day such as `2027-01-31`; undefined for any other text. */
function endOf(day: string): Date | undefined {
  return DAY.test(day) && parseTimestamp(day) !== undefined ? new Date(`${day}T23:59:59Z`) : undefined;
}
