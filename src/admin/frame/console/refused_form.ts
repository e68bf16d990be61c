/** A form that was refused. The page shows it again with the entered texts, and says what is wrong. */
import type { Refusal } from "../../../base/refusal.ts";

/** An entered text is shown again up to this length, so that a page stays small. The values of a license fit. */
export const MOST_ENTERED = 5_000;

export interface RefusedForm {
  readonly action: string;
  readonly form: URLSearchParams;
  readonly refusal: Refusal;
}

/** Returns what was entered in a field; undefined without one. Check boxes of one name have commas between their values. */
export function enteredIn(form: URLSearchParams, name: string): string | undefined {
  return form.has(name) ? form.getAll(name).join(",") : undefined;
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
    value: again === undefined ? proposed : enteredIn(again.form, name)?.slice(0, MOST_ENTERED),
    error: again && hintOf(again.refusal, name),
  });
}

/** Returns why a field was refused. */
export function hintOf({ fields }: Refusal, name: string): string | undefined {
  const wrong = fields?.find(({ field }) => field === name);
  return wrong?.hint ?? wrong?.error;
}
