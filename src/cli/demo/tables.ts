/**
 * The tables of the demo. All customers are invented. Days count back from the day on which
 * the demo is added: a key is issued `since` so many days, and is used `until` then. `per_day` are the inferences of a
 * working day at the end, `weekend` is the part of them on a day of a weekend, and `quota_part` is the part of this
 * month's quota that is used, if that is more than the days say. A change without `by` is by the user who adds the demo.
 * The others are by names that no operator has, because the audit log keeps them for ever. `per_hour` are the refusals of
 * a busy hour; those without a customer had no key, or one that never existed. `type` is a position in the brand's types.
 */
import { parseCsvLine } from "../../text/mod.ts";
import changes from "./changes.csv" with { type: "text" };
import customers from "./customers.csv" with { type: "text" };
import models from "./models.csv" with { type: "text" };
import refusals from "./refusals.csv" with { type: "text" };

export const TABLES = {
  customers: parseTable(customers),
  changes: parseTable(changes),
  refusals: parseTable(refusals),
  models: parseTable(models),
};

/** Returns the rows of a table by the names in its first line, without empty cells. */
function parseTable(csv: string): Record<string, string>[] {
  const [names = [], ...rows] = csv
    .trim()
    .split("\n")
    .map((line) => parseCsvLine(line) ?? []);
  return rows.map((cells) =>
    Object.fromEntries(names.flatMap((name, index) => (cells[index] ? [[name, cells[index]]] : []))),
  );
}
