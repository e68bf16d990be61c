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
import { type Clock, type Repetition, repeat } from "../clock.ts";
import type { Database } from "../database/mod.ts";
import { type AnswerCount, addActivity, type HourOfActivity } from "./add_activity.ts";

export interface ActivityWriter {
  start(): Promise<void>;
  /** Writes the counts now. Counts that cannot be written are kept for the next time. */
  flush(): Promise<void>;
  /** Stops the timer and writes the counts. */
  stop(): Promise<void>;
}

export interface ActivityWriterOptions {
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
const HOUR_MS = 3_600_000;
/**
 * The most rows that wait while the database does not answer: one statement writes them well within its deadline, and
 * an outage of a week has fewer. Further rows are not counted.
 */
const MAX_WAITING = 5_000;

export function createActivityWriter(options: ActivityWriterOptions): ActivityWriter {
  const { database, clock, read, tickMs = TICK_MS } = options;
  let counted = sumOf(read());
  let readAtMs = clock.nowMs();
  let triedAtMs = clock.monotonicMs();
  let waiting = new Map<string, HourOfActivity>();
  /** Writes run one after another, so a stop waits for the write in progress. */
  let writing = Promise.resolve();
  let repetition: Repetition | undefined;

  function gather(): void {
    const hourMs = hourOf(readAtMs);
    const now = sumOf(read());
    for (const [answer, { count, ...named }] of now) {
      const added = count - (counted.get(answer)?.count ?? 0);
      if (added > 0) add({ hourMs, ...named, count: added });
    }
    counted = now;
    readAtMs = clock.nowMs();
  }

  function add(row: HourOfActivity): void {
    const id = `${row.hourMs} ${idOf(row)}`;
    const known = waiting.get(id);
    if (known !== undefined || waiting.size < MAX_WAITING)
      waiting.set(id, { ...row, count: row.count + (known?.count ?? 0) });
  }

  function flush(): Promise<void> {
    gather();
    triedAtMs = clock.monotonicMs();
    writing = writing.then(writeWaiting);
    return writing;
  }

  async function writeWaiting() {
    if (waiting.size === 0) return;
    const taken = waiting;
    waiting = new Map();
    try {
      await addActivity(database, [...taken.values()]);
    } catch {
      // The database does not answer, which the pulse reports, or refuses writes, which `usage/write_watch.ts` reports.
      for (const row of taken.values()) add(row);
    }
  }

  async function tick(): Promise<number> {
    const isDue = clock.monotonicMs() - triedAtMs >= MAX_LOST_SECONDS * 1_000;
    if (isDue || hourOf(clock.nowMs()) !== hourOf(readAtMs)) await flush();
    // At the end of an hour the counters are read at once, because later counts belong to the next hour.
    return Math.min(tickMs, HOUR_MS - (clock.nowMs() % HOUR_MS));
  }

  return {
    async start() {
      repetition = repeat(tickMs, tick);
    },
    flush,
    async stop() {
      repetition?.stop();
      await flush();
    },
  };
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
