/** Runs a statement over all rows that it looks at, in batches, in the order of an index. */
import type { PendingRows, Sql } from "../database/mod.ts";
import type { TaskContext } from "../database/upkeep/mod.ts";

/** How many rows a statement looks at. It is also the most notices that a statement writes. */
export const BATCH_ROWS = 500;

export type NoticeContext = Pick<TaskContext, "database" | "clock" | "isStopping">;

/** A place in an order: an id, or an instant as PostgreSQL writes it and an id. */
export interface Position {
  readonly at?: string;
  readonly uuid: string;
}

const FIRST_UUID = "00000000-0000-0000-0000-000000000000";

/**
 * Runs a statement for one batch after the other, until one finds nothing or the service stops. The statement gets the position of
 * the last row of the batch before it, at first one after `since`, and returns that of its own last row.
 */
export async function inBatches(
  { database, clock, isStopping }: NoticeContext,
  { since }: { readonly since?: Date },
  build: (sql: Sql, seen: Required<Position>, now: Date) => PendingRows,
): Promise<void> {
  let after: Position | undefined = { at: since?.toISOString() ?? "-infinity", uuid: FIRST_UUID };
  while (after !== undefined && !isStopping()) {
    const seen: Required<Position> = { at: "", ...after };
    const now = clock.now();
    const [last] = await database.query<Position>((sql) => build(sql, seen, now));
    after = last;
  }
}
