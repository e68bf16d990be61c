/**
 * Detects that the database answers but refuses every write, for example because its disk is full.
 *
 * Reads still work then, so the service stays healthy and validates keys. The log has one line with the database's
 * error, and one line when writes work again. While writes are refused, a row without counts and a temporary file are
 * written every second as a trial: without events from clients, no other write would show that writes work again.
 */
import { monthOf } from "../base/calendar.ts";
import { type Clock, type Repetition, repeat } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import { type Database, refusedWrite, tryDisk } from "../database/mod.ts";

export type WriteWatch = ReturnType<typeof watchWrites>;

interface WriteWatchOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly processUuid: string;
}

const TRIAL_INTERVAL_MS = 1_000;
/** How long no write may be refused before writes count as working: on a nearly full disk, small writes succeed. */
const QUIET_MS = 5_000;

/** Wraps the database, so that its refused writes are noticed. */
export function watchWrites({ database, clock, log, processUuid }: WriteWatchOptions) {
  let refusedAtMs: number | undefined;
  let trials: Repetition | undefined;
  let stopped = false;

  function note(error: unknown): void {
    const refusal = refusedWrite(error);
    if (refusal === undefined) return;
    const isFirst = refusedAtMs === undefined;
    refusedAtMs = clock.monotonicMs();
    if (!isFirst) return;
    log.error("The database refuses writes: events and changes are answered with 503 until it takes them", {
      reason: refusal.message,
      code: refusal.code,
    });
    if (!stopped) trials = repeat(TRIAL_INTERVAL_MS, tryToWrite);
  }

  async function tryToWrite(): Promise<number | undefined> {
    try {
      await database.query(
        (sql) => sql`
          insert into usage_changes (writer, month, license_ids, used)
          select ${processUuid}::uuid, ${monthOf(clock.nowMs()).firstDay}::date, '{}', '{}'
            from (${tryDisk(sql)}) written
           where lines > 0`,
      );
      if (refusedAtMs !== undefined && clock.monotonicMs() - refusedAtMs >= QUIET_MS) {
        refusedAtMs = undefined;
        log.info("The database takes writes again");
        return undefined;
      }
    } catch (error) {
      note(error);
    }
    return TRIAL_INTERVAL_MS;
  }

  const watched: Database = {
    ...database,
    query(build, options) {
      const result = database.query(build, options);
      result.catch(note);
      return result as never;
    },
  };
  return {
    /** The database whose statements are watched. */
    database: watched,
    isWritable: () => refusedAtMs === undefined,
    async stop() {
      stopped = true;
      trials?.stop();
    },
  };
}
