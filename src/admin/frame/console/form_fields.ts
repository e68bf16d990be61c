/** Fields that several forms have. A form sends text only; an empty text means that a field was left empty. */
import * as v from "valibot";
import { DAY, NEVER_EXPIRES } from "../../../calendar.ts";
import { MONTHLY_LIMIT } from "../../../licensing/mod.ts";
import { type Refusal, refuse } from "../../../refusal.ts";
import { parsedField } from "../../../rule.ts";
import { REASON } from "../api/fields.ts";

export const WRONG_FIELDS = "Nothing was changed: correct the marked field";

/** Blanks around a text are removed, because people paste them. Only forms and the conditions of lists do so. */
export const TEXT = v.pipe(v.optional(v.string(), ""), v.trim());

/** A field that may stay empty: then it is undefined. */
export const TEXT_OR_NOTHING = v.pipe(
  TEXT,
  v.transform((text) => (text === "" ? undefined : text)),
);

/** The reason, which the form of every action has. */
export const REASON_ENTRY = {
  reason: v.pipe(TEXT_OR_NOTHING, REASON.reason),
} as const;

/** The fields of an expiry. */
export const EXPIRY_ENTRIES = {
  last_day: v.optional(v.string(), ""),
  never: v.optional(v.string()),
} as const;

/** Returns the expiry that the fields mean: the last second of the last day. Refuses one that is past. */
export function expiryOf(
  { last_day: day, never }: { readonly last_day: string; readonly never?: string | undefined },
  now: Date,
): Date | Refusal {
  if (never !== undefined) return NEVER_EXPIRES;
  const expiresAt = DAY.parse(day) && new Date(`${day}T23:59:59Z`);
  if (expiresAt && expiresAt > now) return expiresAt;
  const error = expiresAt ? "It must not be in the past" : `It ${DAY.must}`;
  return refuse("INVALID_REQUEST", WRONG_FIELDS, { fields: [{ field: "last_day", error }] });
}

/** The field of a monthly limit: undefined for the tier's own. */
export const LIMIT_ENTRY = {
  monthly_limit: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(MONTHLY_LIMIT))),
} as const;

/** Returns the schema of the text that a form asks people to repeat. */
export function repeatEntry(text: string) {
  return { repeat: v.pipe(TEXT, v.literal(text, `must be ${text}`)) };
}
