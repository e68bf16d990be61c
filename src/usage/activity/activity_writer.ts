/**
 * Adds the counts of this process to the rows of hours and days, once a minute and when an hour ends.
 *
 * The counters of the process only grow, and the writer remembers their last values: the difference belongs to the hour
 * of the last reading. So a request only increments a counter. Several processes add to the same rows.
 *
 * Counts that cannot be written are added with the next write. So the counts of up to a minute are lost if the process
 * is killed, and a write whose answer is lost may be counted twice. That is acceptable, because nobody pays by these
 * counts.
 */
import { HOUR_MS } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import { createWaitingRows, createWriteBehind, type Database } from "../../database/mod.ts";
import { type AnswerCount, addActivity, type HourOfActivity } from "./add_activity.ts";

interface ActivityWriterOptions {
  readonly database: Pick<Database, "query">;
  readonly clock: Clock;
  /** Reads the counters. Two of them may have the same endpoint, code and reason. */
  readonly read: () => readonly AnswerCount[];
  /** How often the writer looks at the clock; once a second by default. */
  readonly tickMs?: number;
}

/** The longest time whose counts are lost if a process is killed. */
export const MAX_LOST_SECONDS = 60;

const TICK_MS = 1_000;

export function createActivityWriter({ database, clock, read, tickMs = TICK_MS }: ActivityWriterOptions) {
  let counted = sumOf(read());
  let readAtMs = clock.nowMs();
  let triedAtMs = clock.monotonicMs();
  const rows = createWaitingRows<HourOfActivity>({
    idOf: (row) => `${row.hourMs} ${idOf(row)}`,
    merge: (one, { count }) => ({ ...one, count: one.count + count }),
    write: (waiting) => addActivity(database, waiting),
  });

  function gather(): void {
    const hourMs = hourOf(readAtMs);
    const now = sumOf(read());
    for (const [answer, { count, ...named }] of now) {
      const added = count - (counted.get(answer)?.count ?? 0);
      if (added > 0) rows.add({ hourMs, ...named, count: added });
    }
    counted = now;
    readAtMs = clock.nowMs();
  }

  function flush(): Promise<void> {
    gather();
    triedAtMs = clock.monotonicMs();
    return rows.flush();
  }

  async function tick(): Promise<void> {
    const isDue = clock.monotonicMs() - triedAtMs >= MAX_LOST_SECONDS * 1_000;
    if (isDue || hourOf(clock.nowMs()) !== hourOf(readAtMs)) await flush();
  }

  return createWriteBehind({
    intervalMs: tickMs,
    // At the end of an hour the counters are read at once, because later counts belong to the next hour.
    pauseMs: () => Math.min(tickMs, HOUR_MS - (clock.nowMs() % HOUR_MS)),
    work: tick,
    flush,
  });
}

function sumOf(counts: readonly AnswerCount[]): Map<string, AnswerCount> {
  const sums = new Map<string, AnswerCount>();
  for (const one of counts) {
    const id = idOf(one);
    sums.set(id, { ...one, count: one.count + (sums.get(id)?.count ?? 0) });
  }
  return sums;
}

/** Names one way to answer: endpoints, codes and reasons contain no spaces. */
function idOf({ endpoint, code, reason }: AnswerCount): string {
  return `${endpoint} ${code} ${reason}`;
}

function hourOf(atMs: number): number {
  return atMs - (atMs % HOUR_MS);
}
