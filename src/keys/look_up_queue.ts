/**
 * Look-ups that wait together go as one statement: 2.7 µs of CPU each instead of 17.
 *
 * The queue is fair between addresses and bounded: each address has a line of its own, a batch takes one
 * from each line in turn, and a line that is too long turns its newest away. So whoever tries a million
 * made-up keys waits behind himself, and not the customers behind him.
 */
import type { Clock } from "../clock.ts";
import { DatabaseUnavailable } from "../database/mod.ts";
import type { KeyRecord } from "./key_record.ts";

export interface LookUpQueueOptions {
  readonly clock: Clock;
  /** Looks up distinct hashes in one statement. */
  readonly find: (hashes: readonly string[]) => Promise<ReadonlyMap<string, KeyRecord>>;
}

export interface LookUpQueue {
  /** Resolves to the record, or null where there is none; rejects as `find` does, or when it is full. */
  lookUp(hash: string, address: string): Promise<KeyRecord | null>;
  stats(): { readonly waiting: number; readonly turnedAway: number };
}

const BATCH_SIZE = 500;
const BATCHES_IN_FLIGHT = 2;
const MAX_WAITING = 20_000;
const MAX_WAITING_PER_ADDRESS = 2_000;

/** Who has waited so long is turned away: the look-up itself still takes its time after that. */
const MAX_WAIT_MS = 1_000;

interface Waiter {
  readonly sinceMs: number;
  readonly hash: string;
  readonly resolve: (record: KeyRecord | null) => void;
  readonly reject: (reason: unknown) => void;
}

export function createLookUpQueue({ find, clock }: LookUpQueueOptions): LookUpQueue {
  /** A line for each address that waits; a line in the map is never empty. */
  const lines = new Map<string, Waiter[]>();
  let waiting = 0;
  let inFlight = 0;
  let turnedAway = 0;
  let scheduled = false;

  function takeBatch(): Waiter[] {
    const batch: Waiter[] = [];
    while (batch.length < BATCH_SIZE && lines.size > 0) {
      for (const [address, line] of lines) {
        const waiter = line.shift();
        if (waiter !== undefined) {
          waiting--;
          if (clock.monotonicMs() - waiter.sinceMs < MAX_WAIT_MS) batch.push(waiter);
          else turnAway(waiter.reject);
        }
        lines.delete(address);
        // Behind all the others, so that the next batch goes on where this one ends.
        if (line.length > 0) lines.set(address, line);
        if (batch.length === BATCH_SIZE) break;
      }
    }
    return batch;
  }

  function turnAway(reject: (reason: unknown) => void) {
    turnedAway++;
    reject(new DatabaseUnavailable("look-up queue full"));
  }

  async function run(batch: readonly Waiter[]) {
    if (batch.length === 0) return;
    inFlight++;
    try {
      const found = await find([...new Set(batch.map((waiter) => waiter.hash))]);
      for (const waiter of batch) waiter.resolve(found.get(waiter.hash) ?? null);
    } catch (error) {
      for (const waiter of batch) waiter.reject(error);
    } finally {
      inFlight--;
      if (waiting > 0) schedule();
    }
  }

  /** Starts batches after the requests that have already arrived have joined the queue. */
  function schedule() {
    if (scheduled) return;
    scheduled = true;
    setImmediate(() => {
      scheduled = false;
      while (waiting > 0 && inFlight < BATCHES_IN_FLIGHT) void run(takeBatch());
    });
  }

  return {
    lookUp(hash, address) {
      const line = lines.get(address);
      if (waiting >= MAX_WAITING || (line !== undefined && line.length >= MAX_WAITING_PER_ADDRESS)) {
        return new Promise((_, reject) => turnAway(reject));
      }
      return new Promise((resolve, reject) => {
        const waiter = { sinceMs: clock.monotonicMs(), hash, resolve, reject };
        if (line === undefined) lines.set(address, [waiter]);
        else line.push(waiter);
        waiting++;
        schedule();
      });
    },
    stats: () => ({ waiting, turnedAway }),
  };
}
