/**
 * Records when each key was used last. A request only marks its key's record; the marks are written together
 * later, so that a request does not wait for a write. Minutes are exact enough for "unused for N days".
 */
import type { Clock } from "../../base/clock.ts";
import { createWaitingRows, createWriteBehind, type Database, toTextArray } from "../../database/mod.ts";
import type { KeyRecord } from "./key_record.ts";

const INTERVAL_MS = 60_000;
/** The most marks that wait to be written. A key that is used beyond this number is marked at a later use. */
const MAX_MARKS = 100_000;
const BATCH_SIZE = 5_000;

export function createLastUse(database: Database, clock: Clock) {
  const { add, flush } = createWaitingRows<Pick<KeyRecord, "uuid" | "isUseNoted">>({
    idOf: ({ uuid }) => uuid,
    // A key that was looked up again has another record. The older record may be marked again.
    merge(older, newer) {
      older.isUseNoted = false;
      return newer;
    },
    most: MAX_MARKS,
    async write(marks) {
      for (const mark of marks) mark.isUseNoted = false;
      // Every writer locks rows in the order of their ids, so two processes never wait for each other.
      const uuids = marks.map(({ uuid }) => uuid).sort();
      for (let start = 0; start < uuids.length; start += BATCH_SIZE)
        await updateLastUse(database, uuids.slice(start, start + BATCH_SIZE), clock.now());
    },
  });
  return {
    ...createWriteBehind({ intervalMs: INTERVAL_MS, flush }),
    /** Marks a key as used now. */
    note(record: KeyRecord): void {
      record.isUseNoted ||= add(record);
    },
  };
}

/** A key that was not used for so many days is silent, and its next use is noted. */
export const SILENT_DAYS = 90;

/** Sets when the keys were last used, unless a later use is stored, and notes those that were silent until then. */
async function updateLastUse(database: Database, uuids: readonly string[], at: Date): Promise<void> {
  await database.query(
    (sql) => sql`
      with used as (
        select id, last_used_at from keys where id = any(${toTextArray(uuids)}::uuid[]) order by id for update
      ),
      woken as (
        insert into key_wakings (key_id, silent_since, woke_at)
        select id, last_used_at, ${at}::timestamptz from used
         where last_used_at <= ${at}::timestamptz - ${SILENT_DAYS}::integer * interval '24 hours'
        on conflict (key_id) do update set silent_since = excluded.silent_since, woke_at = excluded.woke_at
      ),
      -- A clock that was ahead has noted a use that was none.
      never_woken as (
        delete from key_wakings w using used where w.key_id = used.id and w.woke_at > ${at}::timestamptz + interval '1 hour'
      )
      update keys k set last_used_at = greatest(k.last_used_at, ${at}::timestamptz)
        from used where k.id = used.id`,
  );
}
