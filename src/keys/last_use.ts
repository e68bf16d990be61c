/**
 * When each key was used last, written behind: a request only marks its key's record, and the marks are
 * written together, so that the serving path pays nothing. To the minute is exact enough for "unused for N
 * days".
 */
import { type Clock, type Repetition, repeat } from "../clock.ts";
import { type Database, toTextArray } from "../database/mod.ts";
import type { KeyRecord } from "./key_record.ts";

export interface LastUse {
  start(): Promise<void>;
  /** Marks a key as used now. */
  note(record: KeyRecord): void;
  /** Writes what is marked; what cannot be written is kept for the next time. */
  flush(): Promise<void>;
  /** Stops the timer and writes what is marked. */
  stop(): Promise<void>;
}

const INTERVAL_MS = 60_000;
/** Marks kept at most while they cannot be written: beyond it, later ones wait for another use. */
const MAX_MARKS = 100_000;
const BATCH_SIZE = 5_000;

export function createLastUse({
  database,
  clock,
}: {
  readonly database: Database;
  readonly clock: Clock;
}): LastUse {
  /** A key is here once for each record of it: it may have been looked up again since its first use. */
  let marks: Pick<KeyRecord, "uuid" | "isUseNoted">[] = [];
  let repetition: Repetition | undefined;

  async function flush() {
    const taken = marks;
    marks = [];
    for (const mark of taken) mark.isUseNoted = false;
    // In the order of their ids, as every writer takes rows, or two processes could wait for each other.
    const uuids = [...new Set(taken.map(({ uuid }) => uuid))].sort();
    try {
      while (uuids.length > 0) {
        await write(uuids.slice(0, BATCH_SIZE));
        uuids.splice(0, BATCH_SIZE);
      }
    } catch {
      // The database is away, which the pulse tells of: the marks wait for the next round.
      for (const uuid of uuids) if (marks.length < MAX_MARKS) marks.push({ uuid, isUseNoted: true });
    }
  }

  async function write(uuids: readonly string[]) {
    await database.query(
      (sql) => sql`
        with used as (
          select id from keys where id = any(${toTextArray(uuids)}::uuid[]) order by id for update
        )
        update keys k set last_used_at = greatest(k.last_used_at, ${clock.now()}::timestamptz)
          from used where k.id = used.id`,
    );
  }

  return {
    async start() {
      repetition = repeat(INTERVAL_MS, async () => {
        await flush();
        return INTERVAL_MS;
      });
    },
    note(record) {
      if (record.isUseNoted || marks.length >= MAX_MARKS) return;
      record.isUseNoted = true;
      marks.push(record);
    },
    flush,
    async stop() {
      repetition?.stop();
      await flush();
    },
  };
}
