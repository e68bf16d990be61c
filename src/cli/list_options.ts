/** What the lists of keys and accounts have in common: `--search`, `--limit`, `--after`, and what is said of the rest. */
import type { Command } from "commander";
import type { Database } from "../database/mod.ts";
import { type ListPart, MAX_SEARCHED, searchAccounts } from "../licensing/mod.ts";
import { idOption, textOption, wholeNumberOption } from "./options.ts";
import { printNote } from "./print.ts";
import { orRefuse } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

export interface ListOptions {
  readonly search?: string;
  readonly limit: number;
  /** A UUID. */
  readonly after?: string;
}

const ROWS = 100;
const MAX_ROWS = 2_000_000;

export function withListOptions(command: Command, { kind }: { readonly kind: "key" | "usr" }): Command {
  return command
    .option(
      "--search <text>",
      "with words that begin so in e-mail, name or organization, or a key with these last four characters",
      textOption(1, 200),
    )
    .option("--limit <n>", "so many rows at most", wholeNumberOption(1, MAX_ROWS), ROWS)
    .option("--after <id>", "those that come after the one with this id", idOption(kind));
}

/** The part of the list to ask for: one row more than is shown tells whether there are more. */
export async function partOf(
  surroundings: Surroundings,
  database: Database,
  { search, limit, after }: ListOptions,
): Promise<ListPart> {
  const found = search === undefined ? undefined : orRefuse(await searchAccounts(database, search));
  if (found?.isTooWide) {
    const most = MAX_SEARCHED.toLocaleString("en-US");
    printNote(
      surroundings,
      `More than ${most} accounts match, and only ${most} are looked at: narrow the search`,
    );
  }
  return { search: found, limit: limit + 1, afterUuid: after };
}

/** Shows what was found, and says where there is more. */
export function showPart<Row extends { readonly id: string }>(
  surroundings: Surroundings,
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
    surroundings,
    `There are more: --limit shows more than ${limit}, --after ${rows.at(-1)?.id} the next ones`,
  );
}
