/** Searches the places that may not contain a secret: the tables, and the system's list of processes. */
import { readdirSync, readFileSync } from "node:fs";
import type { Database } from "../../src/database/mod.ts";
import type { SecretSearch } from "./secret_search.ts";

const ROWS_AT_ONCE = 10_000;

export interface SearchResult {
  /** The secrets that were found, each with its place. */
  readonly found: string[];
  /** The number of rows of tables, or of texts of processes, that were searched. */
  readonly searched: number;
}

/** Searches every row of every table, `ROWS_AT_ONCE` rows at a time. */
export async function searchTables(database: Database, search: SecretSearch): Promise<SearchResult> {
  const tables = await database.query<{ name: string }>(
    (sql) => sql`
      select quote_ident(relname) as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
  );
  const found = new Set<string>();
  let searched = 0;
  for (const { name } of tables) {
    let last = "(0,0)";
    for (;;) {
      const rows = await database.query<{ at: string; line: string }>((sql) =>
        sql.unsafe(
          `select ctid::text as at, (one.*)::text as line from ${name} one
            where ctid > '${last}'::tid order by ctid limit ${ROWS_AT_ONCE}`,
        ),
      );
      for (const { line } of rows) for (const each of search.find(line)) found.add(`table ${name}: ${each}`);
      searched += rows.length;
      last = rows.at(-1)?.at ?? last;
      if (rows.length < ROWS_AT_ONCE) break;
    }
  }
  return { found: [...found], searched };
}

/** Searches the command lines of all processes, and the environments of the descendants of `root`. */
export function searchProcesses(search: SecretSearch, root = process.pid): SearchResult {
  const found = new Set<string>();
  let searched = 0;
  const searchFile = (path: string) => {
    const text = readText(path);
    if (text === undefined) return;
    searched++;
    for (const each of search.find(text)) found.add(`${path}: ${each}`);
  };
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  for (const pid of pids) searchFile(`/proc/${pid}/cmdline`);
  for (const pid of descendantsOf(root, pids.map(Number))) searchFile(`/proc/${pid}/environ`);
  return { found: [...found], searched };
}

/** Returns the processes among `pids` that descend from `root`. */
export function descendantsOf(root: number, pids: readonly number[]): number[] {
  const parents = new Map(
    pids.map((pid) => [pid, Number(/\nPPid:\t(\d+)/.exec(readText(`/proc/${pid}/status`) ?? "")?.[1])]),
  );
  const isBelow = (pid: number): boolean => {
    const parent = parents.get(pid);
    return parent !== undefined && (parent === root || isBelow(parent));
  };
  return pids.filter(isBelow);
}

/** Returns the text of a file below /proc; undefined if its process has ended. */
function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return undefined;
  }
}
