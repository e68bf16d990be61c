/** The options that the lists of keys and accounts share (`--search`, `--limit`, `--after`), and the note about further rows. */
import type { Command } from "commander";
import type { Database } from "../database/mod.ts";
import { type ListPart, MAX_SEARCHED, SEARCH_TEXT, searchAccounts } from "../licensing/mod.ts";
import { renderCount } from "../render_count.ts";
import type { Invocation } from "./invocation.ts";
import { idOption, parsedOption, wholeNumberOption } from "./options.ts";
import { printNote } from "./print.ts";

export interface ListOptions {
  readonly search?: string;
  readonly limit: number;
  /** A UUID. */
  readonly after?: string;
}

const ROWS = 100;
const MAX_ROWS = 2_000_000;

/** Adds the options of a list: search, limit and the row after which the list begins. */
export function withListOptions(command: Command, { kind }: { readonly kind: "key" | "usr" }): Command {
  return command
    .option(
      "--search <text>",
      "only rows where words of e-mail, name or organization begin like this, or a key ends with these four characters",
      parsedOption(SEARCH_TEXT),
    )
    .option("--limit <n>", "show at most this many rows", wholeNumberOption(1, MAX_ROWS), ROWS)
    .option("--after <id>", "show the rows after the one with this id", idOption(kind));
}

/** Returns the part of the list to query: one row more than is shown, to know whether there are more. */
export async function partOf(
  invocation: Invocation,
  database: Database,
  { search, limit, after }: ListOptions,
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
