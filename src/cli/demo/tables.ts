/**
 * The tables of the demo. All customers are invented. Days count back from the day when the demo is added: a key was
 * issued `since` days ago and was used last `until` days ago. `per_day` are the inferences of a working day at the end,
 * `weekend` is the part of them on a day of a weekend, `quota_part` is the part of this month's quota that is used, and
 * `taken` is how many of the floating `seats` are taken.
 * A change without `by` is by the user who adds the demo. The names in `by` are invented, because the audit log keeps
 * them for ever. `per_hour` are the refusals of a busy hour; those without an e-mail had no key, or an unknown one.
 */
import { parseCsvLine } from "../../base/text/mod.ts";
import changes from "./changes.csv" with { type: "text" };
import customers from "./customers.csv" with { type: "text" };
import refusals from "./refusals.csv" with { type: "text" };

export const TABLES = { customers: rowsOf(customers), changes: rowsOf(changes), refusals: rowsOf(refusals) };

/** Returns the rows of a table by the names in its first line, without empty cells. */
function rowsOf(csv: string): Record<string, string>[] {
  const [names = [], ...rows] = csv
    .trim()
    .split("\n")
    .map((line) => parseCsvLine(line) ?? []);
  return rows.map((cells) =>
    Object.fromEntries(names.flatMap((name, index) => (cells[index] ? [[name, cells[index]]] : []))),
  );
}
