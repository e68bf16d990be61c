/**
 * The tagged template in which all SQL is written, as a type: rooms are handed it and never import the
 * driver. A template used inside another one is a fragment of it.
 */
import type postgres from "postgres";

export type Sql = postgres.Sql<{ bigint: number }>;
export type Fragment = postgres.Fragment;

/**
 * Renders values as the text of an array, to be read by the statement: `${toTextArray(ids)}::uuid[]`.
 *
 * The driver guesses an array's type from its first element and gets booleans, dates and bytes wrong;
 * text that the server reads leaves nothing to guess. By way of `::text[]` it would read everything twice.
 */
export function toTextArray(values: readonly (string | number | boolean | null)[]): string {
  let text = "{";
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (index > 0) text += ",";
    if (value === null || value === undefined) text += "NULL";
    else if (typeof value === "string") text += `"${SPECIAL.test(value) ? escaped(value) : value}"`;
    else text += String(value);
  }
  return `${text}}`;
}

const SPECIAL = /["\\]/;

/** By two plain replacements, which together take two thirds of the time of one by a pattern. */
function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
}
