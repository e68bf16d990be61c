/** The options that the lists of keys and accounts share (`--search`, `--limit`, `--after`), and the note about further rows. */
import type { Database } from "../database/mod.ts";
import { type IdKind, idRule } from "../ids.ts";
import { type ListPart, MAX_SEARCHED, SEARCH_TEXT, searchAccounts } from "../licensing/mod.ts";
import { renderCount } from "../render_count.ts";
import { wholeNumber } from "../rule.ts";
import type { Invocation } from "./invocation.ts";
import { option, type ValuesOf } from "./parameter.ts";
import { printNote } from "./print.ts";

const ROWS = 100;
const MAX_ROWS = 2_000_000;

/** Returns the options of a list: search, limit and the row after which the list begins. */
export function listOptions(kind: IdKind) {
  return {
    search: option(
      "only rows where words of e-mail, name or organization begin like this, or a key ends with these four characters",
      SEARCH_TEXT,
      { as: "text" },
    ),
    limit: option("show at most this many rows", wholeNumber(1, MAX_ROWS), { as: "n", default: ROWS }),
    after: option("show the rows after the one with this id", idRule(kind), { as: "id" }),
  };
}

/** Returns the part of the list to query: one row more than is shown, to know whether there are more. */
export async function partOf(
  invocation: Invocation,
  database: Database,
  { search, limit, after }: ValuesOf<ReturnType<typeof listOptions>>,
): Promise<ListPart> {
  const found = search === undefined ? undefined : await searchAccounts(database, search);
  if (found?.isTooWide) {
    const most = renderCount(MAX_SEARCHED);
    printNote(
      invocation,
      `More than ${most} accounts match, and only ${most} of them are searched: narrow the search`,
    );
  }
  return { search: found, limit: limit + 1, afterUuid: after };
}

/** Shows the rows that were found, and says how to see further rows, if there are any. */
export function showPart<Row extends { readonly id: string }>(
  invocation: Invocation,
  {
    found,
    limit,
    show,
  }: {
    readonly found: readonly Row[];
    readonly limit: number;
    readonly show: (rows: readonly Row[]) => void;
  },
): void {
  const rows = found.slice(0, limit);
  show(rows);
  if (found.length <= limit) return;
  printNote(
    invocation,
    `There are more rows: raise --limit above ${limit}, or show the next rows with --after ${rows.at(-1)?.id}`,
  );
}
