/** The forms of actions: how they are parsed, and the values that a page shows again after a refusal. */
import * as v from "valibot";
import type { Actor } from "../../../audit/mod.ts";
import { NEVER_EXPIRES, parseTimestamp } from "../../../calendar.ts";
import { type Code, type Refusal, refuse } from "../../../refusal.ts";
import { lineField } from "../api/fields.ts";
import type { Visit } from "./visit.ts";

const WRONG_FIELDS = "Nothing was changed: correct the marked field";

/** A form that was refused shows the entered text again up to this length, so that a page stays small. */
export const MOST_ENTERED = 2_000;

/** A form that was refused. The page shows it again with the entered values. */
export interface Attempt {
  /** The name of the action. */
  readonly action: string;
  readonly form: URLSearchParams;
  readonly code: Code;
  readonly sentence: string;
  /** Why the value of a field was refused, by the field's name. */
  readonly errors: Readonly<Record<string, string>>;
}

export const TEXT = v.pipe(v.optional(v.string(), ""), v.trim());

/** A field that may stay empty: then it is undefined. */
export const TEXT_OR_NOTHING = v.pipe(
  TEXT,
  v.transform((text) => (text === "" ? undefined : text)),
);

/** The reason, which the form of every action has. */
const REASON_ENTRY = { reason: v.pipe(TEXT_OR_NOTHING, v.optional(lineField("reason", 1, 2_000))) } as const;

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
  const expiresAt = DAY.test(day) && parseTimestamp(day) ? new Date(`${day}T23:59:59Z`) : undefined;
  if (expiresAt !== undefined && expiresAt > now) return expiresAt;
  const error =
    expiresAt === undefined ? "It must be a day such as 2027-01-31" : "It must not be in the past";
  return refuse("INVALID_REQUEST", WRONG_FIELDS, { fields: [{ field: "last_day", error }] });
}

const DAY = /^\d{4}-\d\d-\d\d$/;
const WRONG_LIMIT = "monthly_limit must be a whole number; leave it empty for the tier's limit";

/** The field of a monthly limit: undefined for the tier's own. */
export const LIMIT_ENTRY = {
  monthly_limit: v.pipe(
    TEXT_OR_NOTHING,
    v.check((text = "0") => /^\d+$/.test(text) && Number.isSafeInteger(Number(text)), WRONG_LIMIT),
    v.transform((text) => (text === undefined ? undefined : Number(text))),
  ),
} as const;

/** Returns the schema of the text that a form asks people to repeat. */
export function repeatEntry(text: string) {
  return { repeat: v.pipe(TEXT, v.literal(text, `It must be ${text}`)) };
}

export type FieldsOf<Entries extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<Entries, undefined>>;

/** Who makes a change, why and when. */
export interface By {
  readonly actor: Actor;
  readonly now: Date;
}

/**
 * Parses the form of an action: its fields, and who makes the change. Or returns the refusal with the first error of
 * each wrong field.
 */
export function parseForm<Entries extends v.ObjectEntries>(
  entries: Entries,
  { form, actor, now }: Visit,
): { readonly fields: FieldsOf<Entries>; readonly by: By } | Refusal {
  const parsed = v.safeParse(v.object({ ...entries, ...REASON_ENTRY }), Object.fromEntries(form));
  if (parsed.success) {
    const { reason, ...fields } = parsed.output;
    // The compiler cannot tell that these are the fields of `entries`.
    return { fields: fields as unknown as FieldsOf<Entries>, by: { actor: { ...actor, reason }, now } };
  }
  const nested: Readonly<Record<string, readonly string[] | undefined>> =
    v.flatten(parsed.issues).nested ?? {};
  const fields = Object.entries(nested).map(([field, [first = ""] = []]) => ({
    field,
    error: toHint(field, first),
  }));
  return refuse("INVALID_REQUEST", WRONG_FIELDS, { fields });
}

/** Returns a message of the API without its field, which stands above the message in a form. */
export function toHint(name: string, message: string): string {
  return message.replace(`${name} must`, "It must");
}

/** Returns the form of an action that was refused. */
export function toAttempt(action: string, form: URLSearchParams, refusal: Refusal): Attempt {
  const { code, sentence, fields = [] } = refusal;
  const errors = Object.fromEntries(fields.map(({ field, error }) => [field, error]));
  return { action, form, code, sentence, errors };
}
