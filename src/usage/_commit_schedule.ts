/**
 * Decides when batches are committed: an event at once if no commit runs, otherwise with the next commit. A second
 * commit runs at the same time as the first only if the second is full or the first takes long.
 */
import type { EventQueue, QueuedEvent } from "./_event_queue.ts";

interface CommitScheduleOptions {
  readonly queue: EventQueue;
  /** Commits a batch. `release` is called when the database has committed it, before its events are answered. */
  readonly commit: (batch: readonly QueuedEvent[], release: () => void) => Promise<void>;
  readonly commitsInFlight: number;
  readonly longCommitMs: number;
}

export function createCommitSchedule(options: CommitScheduleOptions) {
  const { queue, commit, commitsInFlight, longCommitMs } = options;
  let inFlight = 0;
  /** How many of the commits in flight take long. */
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
    /** Must be called after an event was queued. */
    arrived() {
      if (!mayCommit()) return;
      if (queue.isFull()) return pump();
      if (scheduled) return;
      scheduled = true;
      // Requests that this turn of the event loop has already read join the same commit.
      setImmediate(() => {
        scheduled = false;
        pump();
      });
    },
    /** Tells whether a commit runs or is about to run. */
    isBusy: () => inFlight > 0 || scheduled,
  };
}
