/** Fields that several forms have. A form sends text only; an empty text means that a field was left empty. */
import * as v from "valibot";
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

/** Returns the schema of the text that a form asks people to repeat. */
export function repeatEntry(text: string) {
  return { repeat: v.pipe(TEXT, v.literal(text, `must be ${text}`)) };
}
