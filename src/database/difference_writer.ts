/**
 * Adds what the counters of this process have gained to rows of their time, once a minute and when a step of time ends.
 *
 * The counters only grow, and the writer remembers their last values: the difference belongs to the step of the last
 * reading. So a request only increments a counter. Several processes may add to the same rows.
 *
 * Counts that cannot be written are added with the next write. So the counts of up to a minute are lost if the process
 * is killed, and a write whose answer is lost may be counted twice. That is acceptable, because nobody pays by these
 * counts.
 */
import type { Clock } from "../base/clock.ts";
import { createWaitingRows, createWriteBehind } from "./write_behind.ts";

/** What a counter has gained in a step of time. */
export interface Gain<Count> {
  /** The beginning of the step, as Unix time. */
  readonly atMs: number;
  readonly count: Count;
}

interface DifferenceWriterOptions<Count> {
  readonly clock: Clock;
  /** The length of a step of time, such as an hour. */
  readonly stepMs: number;
  /** Reads the counters. Those with the same id are added. */
  readonly read: () => readonly Count[];
  readonly idOf: (count: Count) => string;
  readonly add: (one: Count, other: Count) => Count;
  /** Returns what a counter has gained since an earlier reading, which did not have a new counter; undefined if nothing. */
  readonly gained: (now: Count, before: Count | undefined) => Count | undefined;
  /** Adds the gains to the rows. No two gains have the same step and the same id. */
  readonly write: (gains: readonly Gain<Count>[]) => Promise<void>;
  /** How often the writer looks at the clock; once a second by default. */
  readonly tickMs?: number | undefined;
}

/** The longest time whose counts are lost if a process is killed. */
const MAX_LOST_SECONDS = 60;

/** How true the counts are, for people and in the OpenAPI document. */
export const COUNTS_RULE =
  "Every process adds its counts once a minute, and when it stops. After a crash the counts of its last " +
  `${MAX_LOST_SECONDS} seconds are missing. If the connection to the database is lost during a write, a minute may be ` +
  "counted twice.";

const TICK_MS = 1_000;

/** Creates the writer. It reads the counters at once, and writes what they gain from then on. */
export function createDifferenceWriter<Count>(options: DifferenceWriterOptions<Count>) {
  const { clock, stepMs, read, idOf, add, gained, write, tickMs = TICK_MS } = options;
  let counted = sumsOf(read());
  let readAtMs = clock.nowMs();
  let triedAtMs = clock.monotonicMs();
  const gains = createWaitingRows<Gain<Count>>({
    idOf: ({ atMs, count }) => `${atMs} ${idOf(count)}`,
    merge: (one, other) => ({ ...one, count: add(one.count, other.count) }),
    write,
  });

  function sumsOf(counts: readonly Count[]): Map<string, Count> {
    const sums = new Map<string, Count>();
    for (const one of counts) {
      const id = idOf(one);
      const known = sums.get(id);
      sums.set(id, known === undefined ? one : add(known, one));
    }
    return sums;
  }

  const stepOf = (atMs: number) => atMs - (atMs % stepMs);

  function gather(): void {
    const atMs = stepOf(readAtMs);
    const now = sumsOf(read());
    for (const [id, sum] of now) {
      const count = gained(sum, counted.get(id));
      if (count !== undefined) gains.add({ atMs, count });
    }
    counted = now;
    readAtMs = clock.nowMs();
  }

  function flush(): Promise<void> {
    gather();
    triedAtMs = clock.monotonicMs();
    return gains.flush();
  }

  async function tick(): Promise<void> {
    const isDue = clock.monotonicMs() - triedAtMs >= MAX_LOST_SECONDS * 1_000;
    if (isDue || stepOf(clock.nowMs()) !== stepOf(readAtMs)) await flush();
  }

  return createWriteBehind({
    intervalMs: tickMs,
    // At the end of a step the counters are read at once, because later counts belong to the next step.
    pauseMs: () => Math.min(tickMs, stepMs - (clock.nowMs() % stepMs)),
    work: tick,
    flush,
  });
}
