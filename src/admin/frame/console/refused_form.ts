/** A form that was refused. The page shows it again with the entered texts, and says what is wrong. */
import type { Code, Refusal } from "../../../refusal.ts";
import type { Remedy } from "../../../remedy.ts";

/** An entered text is shown again up to this length, so that a page stays small. */
export const MOST_ENTERED = 2_000;

export interface RefusedForm {
  /** The name of the action. */
  readonly action: string;
  readonly form: URLSearchParams;
  readonly code: Code;
  readonly sentence: string;
  readonly remedy: Remedy | undefined;
  /** Why the value of a field was refused, by the field's name. */
  readonly errors: Readonly<Record<string, string>>;
}

export function toRefusedForm(action: string, form: URLSearchParams, refusal: Refusal): RefusedForm {
  const { code, sentence, remedy, fields = [] } = refusal;
  const errors = Object.fromEntries(fields.map(({ field, error }) => [field, error]));
  return { action, form, code, sentence, remedy, errors };
}

/**
 * Returns a function that gives a field of an action its name, its id and, if the form was refused, its error and the
 * entered text instead of the proposed one.
 */
export function fieldsOf(action: string, refused: RefusedForm | undefined) {
  const again = refused?.action === action ? refused : undefined;
  return (name: string, proposed?: string) => ({
    name,
    id: `${action}-${name}`,
    value: again === undefined ? proposed : again.form.get(name)?.slice(0, MOST_ENTERED),
    error: again?.errors[name],
  });
}
