import type { Database } from "../../src/database/mod.ts";

interface Node {
  readonly "Node Type": string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Index Recheck"?: number;
  readonly Plans?: readonly Node[];
}

/**
 * Counts the rows that the statements of `run` read from tables and indexes, as `explain analyze` reports them: the cost
 * of a list, whatever the speed of the machine. `run` gets no rows.
 */
export async function countRowsRead(
  database: Database,
  run: (explained: Database) => Promise<unknown>,
): Promise<number> {
  let read = 0;
  const query: Database["query"] = async (build) => {
    const [row] = await database.query<{ "QUERY PLAN": readonly [{ readonly Plan: Node }] }>(
      (sql) => sql`explain (analyze, timing off, format json) ${build(sql)}`,
    );
    if (row !== undefined) read += rowsOf(row["QUERY PLAN"][0].Plan);
    return [];
  };
  await run({ ...database, query });
  return read;
}

function rowsOf(node: Node): number {
  const below = (node.Plans ?? []).reduce((rows, plan) => rows + rowsOf(plan), 0);
  if (!/Seq Scan|Index.* Scan|Bitmap Heap Scan/.test(node["Node Type"])) return below;
  const removed = (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Index Recheck"] ?? 0);
  return below + (node["Actual Rows"] + removed) * node["Actual Loops"];
}
