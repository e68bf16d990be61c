/** Parts that gather rows in memory and write them together later, so that a request does not wait for a write. */
import { type Repetition, repeat } from "../clock.ts";

export interface WriteBehind {
  start(): Promise<void>;
  /** Writes what is due. What cannot be written is kept for the next time. */
  flush(): Promise<void>;
  /** Stops the timer and writes everything. */
  stop(): Promise<void>;
}

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
export function createWriteBehind(options: WriteBehindOptions): WriteBehind {
  const { intervalMs, pauseMs = () => intervalMs, flush, work = flush, writeAll = flush } = options;
  let repetition: Repetition | undefined;
  return {
    async start() {
      repetition = repeat(intervalMs, () => work().then(pauseMs));
    },
    flush,
    async stop() {
      repetition?.stop();
      await writeAll();
    },
  };
}

/** The most rows that wait: one statement writes them well within its deadline. Further rows are not recorded. */
const MAX_WAITING = 5_000;

interface WaitingRowsOptions<Row> {
  readonly idOf: (row: Row) => string;
  /** Makes one row of two with the same id. */
  readonly merge: (one: Row, other: Row) => Row;
  readonly write: (rows: readonly Row[]) => Promise<void>;
}

/** Creates rows that wait to be written. Rows whose write fails are added again. */
export function createWaitingRows<Row>({ idOf, merge, write }: WaitingRowsOptions<Row>) {
  let waiting = new Map<string, Row>();
  /** Writes run one after another, so a stop waits for the write in progress. */
  let writing = Promise.resolve();
  let failures = 0;

  function add(row: Row): void {
    const id = idOf(row);
    const known = waiting.get(id);
    if (known !== undefined) waiting.set(id, merge(known, row));
    else if (waiting.size < MAX_WAITING) waiting.set(id, row);
  }

  async function writeWaiting() {
    if (waiting.size === 0) return;
    const taken = waiting;
    waiting = new Map();
    try {
      await write([...taken.values()]);
      failures = 0;
    } catch {
      // The database does not answer, which the pulse reports, or refuses writes, which `usage/write_watch.ts` reports.
      failures++;
      for (const row of taken.values()) add(row);
    }
  }

  return {
    add,
    flush(): Promise<void> {
      writing = writing.then(writeWaiting);
      return writing;
    },
    /** How many writes have failed since the last one that succeeded. */
    failures: () => failures,
  };
}
