import { describeChanges, type FieldChange } from "../../../audit/mod.ts";
import { shownLength } from "./cut_text.ts";

/**
 * The most characters of all values of a row, so that a page of 50 rows stays small. A character that HTML escapes
 * counts as several.
 */
const MOST_CHARACTERS = 900;

/** Returns the changed fields, and whether some were left out because their values are too long. */
export function changesOf(
  before: unknown,
  after: unknown,
): { readonly changes: readonly FieldChange[]; readonly isCut: boolean } {
  const changes: FieldChange[] = [];
  let left = MOST_CHARACTERS;
  for (const { field, ...values } of describeChanges(before, after)) {
    const change = { field, before: toMinute(values.before), after: toMinute(values.after) };
    left -= shownLength(change.field) + shownLength(change.before ?? "") + shownLength(change.after ?? "");
    if (left < 0) return { changes, isCut: true };
    changes.push(change);
  }
  return { changes, isCut: false };
}

/** Shows an instant as all pages do: `2026-11-22 12:30`. */
function toMinute(value: string | undefined): string | undefined {
  return value?.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\dZ$/, "$1 $2");
}
