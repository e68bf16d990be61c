/** The places in which no secret may be: the tables, and what the system shows of processes. */
import { readdirSync, readFileSync } from "node:fs";
import type { Database } from "../../src/database/mod.ts";
import type { SecretSearch } from "./secret_search.ts";

const ROWS_AT_ONCE = 10_000;

export interface Searched {
  /** What was found, by place. */
  readonly found: string[];
  /** How much was looked at: rows of tables, or texts of processes. */
  readonly looked: number;
}

/** Looks through every row of every table, a few at a time. */
export async function searchTables(database: Database, search: SecretSearch): Promise<Searched> {
  const tables = await database.query<{ name: string }>(
    (sql) => sql`
      select quote_ident(relname) as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
  );
  const found = new Set<string>();
  let looked = 0;
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
      looked += rows.length;
      last = rows.at(-1)?.at ?? last;
      if (rows.length < ROWS_AT_ONCE) break;
    }
  }
  return { found: [...found], looked };
}

/** Looks through the command lines of all processes, and the environments of those that this one started. */
export function searchProcesses(search: SecretSearch, root = process.pid): Searched {
  const found = new Set<string>();
  let looked = 0;
  const look = (path: string) => {
    const text = readText(path);
    if (text === undefined) return;
    looked++;
    for (const each of search.find(text)) found.add(`${path}: ${each}`);
  };
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  for (const pid of pids) look(`/proc/${pid}/cmdline`);
  for (const pid of descendantsOf(root, pids.map(Number))) look(`/proc/${pid}/environ`);
  return { found: [...found], looked };
}

/** The processes that a process started, and those that they did. */
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

/** Undefined where the process has ended meanwhile. */
function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return undefined;
  }
}
