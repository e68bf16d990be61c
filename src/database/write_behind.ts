/** Parts that gather rows in memory and write them together later, so that a request does not wait for a write. */
import { type Repetition, repeat } from "../base/clock.ts";

export type WriteBehind = ReturnType<typeof createWriteBehind>;

interface WriteBehindOptions {
  /** The time from the start to the first work. */
  readonly intervalMs: number;
  /** The time from the end of the work to the next; `intervalMs` by default. */
  readonly pauseMs?: () => number;
  readonly flush: () => Promise<void>;
  /** What is repeated; `flush` by default. Must not throw. */
  readonly work?: () => Promise<void>;
  /** Writes everything; `flush` by default. */
  readonly writeAll?: () => Promise<void>;
}

/** Creates the part, which repeats its work from `start` to `stop`. */
export function createWriteBehind(options: WriteBehindOptions) {
  const { intervalMs, pauseMs = () => intervalMs, flush, work = flush, writeAll = flush } = options;
  let repetition: Repetition | undefined;
  return {
    async start() {
      repetition = repeat(intervalMs, () => work().then(pauseMs));
    },
    /** Writes what is due. What cannot be written is kept for the next time. */
    flush,
    /** Stops the timer and writes everything. */
    async stop() {
      repetition?.stop();
      await writeAll();
    },
  };
}

/** The most rows that wait: one statement writes them well within its deadline. */
const MAX_WAITING = 5_000;

interface WaitingRowsOptions<Row> {
  readonly idOf: (row: Row) => string;
  /** Makes one row of two with the same id. */
  readonly merge: (one: Row, other: Row) => Row;
  readonly write: (rows: readonly Row[]) => Promise<void>;
  /** The most rows that wait; 5,000 by default. */
  readonly most?: number;
  /** Returns the row that a further row becomes if there is no place for it; by default it is not recorded. */
  readonly whenFull?: (row: Row) => Row;
}

/** Creates rows that wait to be written. Rows whose write fails are added again. */
export function createWaitingRows<Row>(options: WaitingRowsOptions<Row>) {
  const { idOf, merge, write, most = MAX_WAITING, whenFull } = options;
  const waiting = new Map<string, Row>();
  /** Writes run one after another, so a stop waits for the write in progress. */
  let writing = Promise.resolve();
  let failures = 0;

  /** Returns false if there is no place for the row. */
  function add(row: Row): boolean {
    const isFull = waiting.size >= most && !waiting.has(idOf(row));
    const kept = isFull ? whenFull?.(row) : row;
    if (kept === undefined) return false;
    const id = idOf(kept);
    const known = waiting.get(id);
    waiting.set(id, known === undefined ? kept : merge(known, kept));
    return true;
  }

  async function writeDue(isDue: (row: Row) => boolean) {
    const taken = [...waiting.values()].filter(isDue);
    if (taken.length === 0) return;
    for (const row of taken) waiting.delete(idOf(row));
    try {
      await write(taken);
      failures = 0;
    } catch {
      // The database does not answer, which the pulse reports, or refuses writes, which `usage/write_watch.ts` reports.
      failures++;
      for (const row of taken) add(row);
    }
  }

  return {
    add,
    /** Writes the rows that are due; all by default. */
    flush(isDue: (row: Row) => boolean = () => true): Promise<void> {
      writing = writing.then(() => writeDue(isDue));
      return writing;
    },
    /** How many writes have failed since the last one that succeeded. */
    failures: () => failures,
  };
}
