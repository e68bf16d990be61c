import * as v from "valibot";
import type { By } from "../../../audit/mod.ts";
import { type Refusal, refuse } from "../../../refusal.ts";
import { REASON_ENTRY, WRONG_FIELDS } from "./form_fields.ts";
import type { Visit } from "./visit.ts";

export type FieldsOf<Entries extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<Entries, undefined>>;

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
