/**
 * The queue of events that wait for their commit. It is bounded in number and bytes; batches take the oldest first.
 *
 * An event that waits for another event with its claim (see `_claims.ts`) counts as waiting but is not in the queue.
 */
import { DAY_MS } from "../base/calendar.ts";
import { type Arrival, chargedAtMs, type EventOutcome, type UsageEvent } from "./event.ts";

export interface QueuedEvent {
  readonly event: UsageEvent;
  readonly arrival: Arrival;
  readonly resolve: (outcome: EventOutcome) => void;
  readonly reject: (reason: unknown) => void;
}

export type EventQueue = ReturnType<typeof createEventQueue>;

const MAX_WAITING = 20_000;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
/**
 * This many events are committed at once, even while another commit runs: in a larger batch, an event costs hardly
 * less.
 */
const FULL_COMMIT = 100;
/** A larger statement could miss its deadline because of its size alone. */
const MAX_BATCH_BYTES = 2 * 1024 * 1024;

export function createEventQueue(maxEventsPerCommit: number) {
  const fullCommit = Math.min(FULL_COMMIT, maxEventsPerCommit);
  let queue: QueuedEvent[] = [];
  let waiting = 0;
  let waitingBytes = 0;

  /** Ends the wait of an event: it no longer counts as waiting. */
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
    /** Counts an event of a size as waiting. Returns false, and does not count it, if too many events or bytes wait. */
    admit(bytes: number): boolean {
      if (waiting >= MAX_WAITING || waitingBytes + bytes > MAX_WAITING_BYTES) return false;
      waiting++;
      waitingBytes += bytes;
      return true;
    },
    /** Tells whether as many events as one statement takes, and their bytes, can wait as well. */
    hasRoom: () =>
      waiting + maxEventsPerCommit <= MAX_WAITING && waitingBytes + MAX_BATCH_BYTES <= MAX_WAITING_BYTES,
    leave,
    push: (event: QueuedEvent) => void queue.push(event),
    isEmpty: () => queue.length === 0,
    /** Tells whether the queue has enough events for a full commit. */
    isFull: () => queue.length >= fullCommit,
    /**
     * Takes the oldest events for one statement, as long as they were received on one day and are charged to one day: at
     * most a full commit, or half of the queue if that is more. The rest stays for the next commit, which runs while the events of this one are answered.
     */
    takeBatch(): QueuedEvent[] {
      const [first] = queue;
      const most = Math.min(Math.max(fullCommit, Math.ceil(queue.length / 2)), maxEventsPerCommit);
      let size = 0;
      let bytes = 0;
      for (const item of queue) {
        bytes += item.arrival.bytes;
        const isFull = size === most || (size > 0 && bytes > MAX_BATCH_BYTES);
        if (isFull || (first !== undefined && !haveSameDays(item.event, first.event))) break;
        size++;
      }
      return take(size);
    },
    takeAll: () => take(queue.length),
    /** How many events wait, and their size. */
    waiting: () => ({ events: waiting, bytes: waitingBytes }),
  };
}

/** Tells whether two events were received on one day, and are charged to one day, UTC. */
function haveSameDays(one: UsageEvent, other: UsageEvent): boolean {
  const dayOf = (ms: number) => Math.floor(ms / DAY_MS);
  return (
    dayOf(one.receivedAtMs) === dayOf(other.receivedAtMs) &&
    dayOf(chargedAtMs(one)) === dayOf(chargedAtMs(other))
  );
}
