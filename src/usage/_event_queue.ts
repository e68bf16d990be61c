/**
 * The events that wait for their commit: bounded in number and bytes, and taken in batches, the oldest first.
 *
 * An event that waits for another one with its claim (see `_claims.ts`) counts as waiting, and no batch takes it.
 */
import type { Arrival, EventOutcome, UsageEvent } from "./event.ts";

export interface QueuedEvent {
  readonly event: UsageEvent;
  readonly arrival: Arrival;
  readonly resolve: (outcome: EventOutcome) => void;
  readonly reject: (reason: unknown) => void;
}

export interface EventQueue {
  /** Counts an event of that size as waiting; false where too many wait. */
  admit(bytes: number): boolean;
  /** Counts an event as waiting no more. */
  leave(arrival: Arrival): void;
  push(event: QueuedEvent): void;
  isEmpty(): boolean;
  /** Whether a commit of what a batch would take now is full. */
  isFull(): boolean;
  /**
   * Takes the oldest events of one day, as many as one statement should carry: no more than make it full, so
   * that answering them and the next commit go on side by side, or half of what waits where that is more.
   */
  takeBatch(): QueuedEvent[];
  takeAll(): QueuedEvent[];
  /** How many events wait, and their size. */
  waiting(): { readonly events: number; readonly bytes: number };
}

const MAX_WAITING = 20_000;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
/** So many are worth a commit of their own at once: beyond, an event costs the database hardly less. */
const FULL_COMMIT = 100;
/** A statement that is larger could miss its deadline for its size alone. */
const MAX_BATCH_BYTES = 2 * 1024 * 1024;
const DAY_MS = 86_400_000;

export function createEventQueue(maxEventsPerCommit: number): EventQueue {
  const fullCommit = Math.min(FULL_COMMIT, maxEventsPerCommit);
  let queue: QueuedEvent[] = [];
  let waiting = 0;
  let waitingBytes = 0;

  function leave({ bytes }: Arrival): void {
    waiting--;
    waitingBytes -= bytes;
  }

  function take(size: number): QueuedEvent[] {
    const taken = queue.slice(0, size);
    queue = queue.slice(size);
    for (const { arrival } of taken) leave(arrival);
    return taken;
  }

  return {
    admit(bytes) {
      if (waiting >= MAX_WAITING || waitingBytes + bytes > MAX_WAITING_BYTES) return false;
      waiting++;
      waitingBytes += bytes;
      return true;
    },
    leave,
    push: (event) => void queue.push(event),
    isEmpty: () => queue.length === 0,
    isFull: () => queue.length >= fullCommit,
    takeBatch() {
      const day = Math.floor((queue[0]?.event.receivedAtMs ?? 0) / DAY_MS);
      const most = Math.min(Math.max(fullCommit, Math.ceil(queue.length / 2)), maxEventsPerCommit);
      let size = 0;
      let bytes = 0;
      for (const item of queue) {
        bytes += item.arrival.bytes;
        const isFull = size === most || (size > 0 && bytes > MAX_BATCH_BYTES);
        if (isFull || Math.floor(item.event.receivedAtMs / DAY_MS) !== day) break;
        size++;
      }
      return take(size);
    },
    takeAll: () => take(queue.length),
    waiting: () => ({ events: waiting, bytes: waitingBytes }),
  };
}
