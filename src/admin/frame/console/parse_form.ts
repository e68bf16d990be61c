import * as v from "valibot";
import type { By } from "../../../audit/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../../refusal.ts";
import { parseSent } from "../api/parse_sent.ts";
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
  const parsed = parseSent(v.object({ ...entries, ...REASON_ENTRY }), Object.fromEntries(form), "form");
  if (isRefusal(parsed)) return refuse(parsed.code, WRONG_FIELDS, { fields: parsed.fields ?? [] });
  const { reason, ...fields } = parsed as FieldsOf<typeof REASON_ENTRY>;
  // The compiler cannot tell that these are the fields of `entries`.
  return { fields: fields as unknown as FieldsOf<Entries>, by: { actor: { ...actor, reason }, now } };
}
