/** What lists share: the options `--search`, `--limit` and `--after`, and the note about further rows. */
import type { Database } from "../database/mod.ts";
import { type IdKind, idRule } from "../ids.ts";
import { type ListPart, SEARCH_TEXT, searchAccounts, TOO_WIDE } from "../licensing/mod.ts";
import { wholeNumber } from "../rule.ts";
import { option, type ValuesOf } from "./parameter.ts";
import type { Printer } from "./print.ts";

/** Returns the option by which a list has at most this many rows. */
export function limitOption(most: number) {
  return { limit: option("show at most this many rows", wholeNumber(1, most), { as: "n", default: 100 }) };
}

/** Returns the options of a list of keys or accounts: search, limit and the row after which the list begins. */
export function listOptions(kind: IdKind) {
  return {
    search: option(
      "only rows where words of e-mail, name or organization begin like this, or a key ends with these four characters",
      SEARCH_TEXT,
      { as: "text" },
    ),
    ...limitOption(2_000_000),
    after: option("show the rows after the one with this id", idRule(kind), { as: "id" }),
  };
}

/** Returns the part of the list to query: one row more than is shown, to know whether there are more. */
export async function partOf(
  print: Printer,
  database: Database,
  { search, limit, after }: ValuesOf<ReturnType<typeof listOptions>>,
): Promise<ListPart> {
  const found = search === undefined ? undefined : await searchAccounts(database, search);
  if (found?.isTooWide) print.warn(TOO_WIDE);
  return { search: found, limit: limit + 1, afterUuid: after };
}

interface RowsOptions<Row> {
  readonly limit: number;
  readonly toCells: (row: Row) => Readonly<Record<string, unknown>>;
  readonly toJson: (row: Row) => unknown;
  /** The rows that are left out. */
  readonly further?: string;
  /** How to see them, besides with a higher limit. */
  readonly next?: (last: Row) => string;
}

/** Prints at most `limit` of the rows that were found, and says how to see further rows, if more were found. */
export function printRows<Row>(
  print: Printer,
  found: readonly Row[],
  { limit, toCells, toJson, further = "more rows", next }: RowsOptions<Row>,
): void {
  const rows = found.slice(0, limit);
  print.table(rows.map(toCells), rows.map(toJson));
  const last = rows.at(-1);
  if (found.length === rows.length || last === undefined) return;
  const orElse = next === undefined ? "" : `, or show ${next(last)}`;
  print.warn(`There are ${further}: raise --limit above ${limit}${orElse}`);
}

/** Names the rows after the last one. */
export function rowsAfter({ id }: { readonly id: string }): string {
  return `the next rows with --after ${id}`;
}
