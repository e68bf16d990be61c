/** The fields of forms. A form sends text only; an empty text means that a field was left empty. */
import * as v from "valibot";
import type { By } from "../../../audit/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../../base/refusal.ts";
import { parsedField } from "../../../base/rule.ts";
import { TEXT_RULES } from "../../../licensing/mod.ts";
import { NEEDED_REASON, REASON } from "../api/fields.ts";
import { parseSent } from "../api/parse_sent.ts";
import { enteredIn } from "./refused_form.ts";
import type { Visit } from "./visit.ts";

export type FieldsOf<Entries extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<Entries, undefined>>;

/** Refuses a form with the error of each wrong field. */
export function refuseFields(fields: NonNullable<Refusal["fields"]>, why = "Nothing was changed"): Refusal {
  const which = fields.length === 1 ? "marked field" : `${fields.length} marked fields`;
  return refuse("INVALID_REQUEST", `${why}: correct the ${which}`, { fields });
}

/** Blanks around a text are removed, because people paste them. Only forms and the conditions of lists do so. */
export const TEXT = v.pipe(v.optional(v.string(), ""), v.trim());

/** A field that may stay empty: then it is undefined. */
export const TEXT_OR_NOTHING = v.pipe(
  TEXT,
  v.transform((text) => (text === "" ? undefined : text)),
);

/** An e-mail. An empty field is told what it is for, and not what no e-mail may contain. */
export const EMAIL = v.pipe(
  TEXT,
  v.nonEmpty("must be an e-mail address, such as ada@example.org"),
  parsedField(TEXT_RULES.email),
);

/** The reason, which the form of every action has. */
const REASON_ENTRY = { reason: v.pipe(TEXT_OR_NOTHING, REASON.reason) } as const;

/** The reason of an action that needs one. */
export const NEEDED_REASON_ENTRY = { reason: v.pipe(TEXT, NEEDED_REASON.reason) } as const;

/** Returns the schema of the text that a form asks people to repeat. Phones write capitals, which do not matter. */
export function repeatEntry(text: string) {
  const isSame = (given: string) => given.toLowerCase() === text.toLowerCase();
  return { repeat: v.pipe(TEXT, v.check(isSame, `must be ${text}`)) };
}

/**
 * Parses the form of an action: its fields, and who makes the change. Or returns the refusal with the first error of
 * each wrong field.
 */
export function parseForm<Entries extends v.ObjectEntries>(
  entries: Entries,
  { form, actor, now }: Visit,
): { readonly fields: FieldsOf<Entries>; readonly by: By } | Refusal {
  const known = { ...REASON_ENTRY, ...entries };
  const sent = Object.fromEntries(Object.keys(known).map((name) => [name, enteredIn(form, name)]));
  const parsed = parseSent(v.object(known), sent, "form");
  if (isRefusal(parsed)) return refuseFields(parsed.fields ?? []);
  const { reason, ...fields } = parsed as FieldsOf<typeof REASON_ENTRY>;
  // The compiler cannot tell that these are the fields of `entries`.
  return { fields: fields as unknown as FieldsOf<Entries>, by: { actor: { ...actor, reason }, now } };
}
