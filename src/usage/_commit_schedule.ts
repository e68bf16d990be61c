/**
 * When batches are committed: an event at once where no commit runs, and otherwise with the next one. A second
 * commit runs beside the first only when it is full, or when the first takes long.
 */
import type { EventQueue, QueuedEvent } from "./_event_queue.ts";

export interface CommitScheduleOptions {
  readonly queue: EventQueue;
  /** `release` is called once the database is done with the batch, before its events are answered. */
  readonly commit: (batch: readonly QueuedEvent[], release: () => void) => Promise<void>;
  readonly commitsInFlight: number;
  readonly longCommitMs: number;
}

export interface CommitSchedule {
  /** Must be called when an event was queued. */
  arrived(): void;
  /** Whether a commit runs or is about to. */
  isBusy(): boolean;
}

export function createCommitSchedule(options: CommitScheduleOptions): CommitSchedule {
  const { queue, commit, commitsInFlight, longCommitMs } = options;
  let inFlight = 0;
  /** Of those in flight, how many take long. */
  let slow = 0;
  let scheduled = false;

  async function run() {
    inFlight++;
    let isHeld = true;
    let isSlow = false;
    const timer = setTimeout(() => {
      isSlow = true;
      slow++;
      pump();
    }, longCommitMs);
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      clearTimeout(timer);
      inFlight--;
      if (isSlow) slow--;
      pump();
    };
    await commit(queue.takeBatch(), release);
    release();
  }

  function mayCommit(): boolean {
    return inFlight < commitsInFlight && (inFlight === slow || queue.isFull());
  }

  function pump() {
    while (!queue.isEmpty() && mayCommit()) void run();
  }

  return {
    arrived() {
      if (!mayCommit()) return;
      if (queue.isFull()) return pump();
      if (scheduled) return;
      scheduled = true;
      // The requests that this turn of the loop has read already join the same commit.
      setImmediate(() => {
        scheduled = false;
        pump();
      });
    },
    isBusy: () => inFlight > 0 || scheduled,
  };
}
