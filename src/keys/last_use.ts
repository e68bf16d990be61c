/**
 * Records when each key was used last. A request only marks its key's record; the marks are written together
 * later, so that a request does not wait for a write. Minutes are exact enough for "unused for N days".
 */
import type { Clock } from "../clock.ts";
import { createWriteBehind, type Database, toTextArray } from "../database/mod.ts";
import type { KeyRecord } from "./key_record.ts";

const INTERVAL_MS = 60_000;
/** The most marks that wait to be written. A key that is used beyond this number is marked at a later use. */
const MAX_MARKS = 100_000;
const BATCH_SIZE = 5_000;

export function createLastUse(database: Database, clock: Clock) {
  /** A key is here once for each of its records: it may have been looked up again since its first use. */
  let marks: Pick<KeyRecord, "uuid" | "isUseNoted">[] = [];

  async function flush() {
    const taken = marks;
    marks = [];
    for (const mark of taken) mark.isUseNoted = false;
    // Every writer locks rows in the order of their ids, so two processes never wait for each other.
    const uuids = [...new Set(taken.map(({ uuid }) => uuid))].sort();
    try {
      while (uuids.length > 0) {
        await updateLastUse(database, uuids.slice(0, BATCH_SIZE), clock.now());
        uuids.splice(0, BATCH_SIZE);
      }
    } catch {
      // The database does not answer, which the pulse reports. The marks wait for the next time.
      for (const uuid of uuids) if (marks.length < MAX_MARKS) marks.push({ uuid, isUseNoted: true });
    }
  }

  return {
    ...createWriteBehind({ intervalMs: INTERVAL_MS, flush }),
    /** Marks a key as used now. */
    note(record: KeyRecord): void {
      if (record.isUseNoted || marks.length >= MAX_MARKS) return;
      record.isUseNoted = true;
      marks.push(record);
    },
  };
}

/** Sets when the keys were last used, unless a later use is stored. */
async function updateLastUse(database: Database, uuids: readonly string[], at: Date): Promise<void> {
  await database.query(
    (sql) => sql`
      with used as (
        select id from keys where id = any(${toTextArray(uuids)}::uuid[]) order by id for update
      )
      update keys k set last_used_at = greatest(k.last_used_at, ${at}::timestamptz)
        from used where k.id = used.id`,
  );
}
