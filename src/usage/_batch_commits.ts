/** Commits batches of events, and answers each event with its outcome. */
import type { Clock } from "../base/clock.ts";
import { Histogram } from "../base/histogram.ts";
import type { Log } from "../base/log.ts";
import { redactKeys } from "../base/secrets/mod.ts";
import { constraintOf, type Database, type DatabaseUnavailable, isDataError } from "../database/mod.ts";
import type { QueuedEvent } from "./_event_queue.ts";
import { settle } from "./_settlement.ts";
import type { TextBounds } from "./_text_room.ts";
import { commitEvents, type Grant } from "./commit_events.ts";

export interface BatchCommitsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly processUuid: string;
  readonly textBounds: TextBounds;
  /** Called with the month's new use of each license that a commit charged, before the events are answered. */
  readonly onCharged: (grant: Grant, chargedAtMs: number) => void;
  /** Called with each license of a commit with an unknown outcome. */
  readonly onUnknown: (licenseUuid: string) => void;
  /** Counts an event that is not sent to the database, and returns the error for it. */
  readonly turnedAwayFor: (why: string) => DatabaseUnavailable;
}

const BATCH_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
/** An event is answered within this time from its arrival: its wait and its commit together. */
const BUDGET_MS = 2_000;
/** The least time for a commit: an event with less time left is turned away. */
const LEAST_COMMIT_MS = 700;

export function createBatchCommits(options: BatchCommitsOptions) {
  const { clock, log } = options;
  const batches = new Histogram(BATCH_BOUNDS);
  let commits = 0;
  let committed = 0;
  let truncated = 0;

  /** Commits a batch. `release` is called when the database has committed it, before its events are answered. */
  async function commit(batch: readonly QueuedEvent[], release = () => {}): Promise<void> {
    const nowMs = clock.monotonicMs();
    const inTime: QueuedEvent[] = [];
    let deadlineMs = BUDGET_MS;
    for (const item of batch) {
      const leftMs = BUDGET_MS - (nowMs - item.arrival.atMs);
      if (leftMs < LEAST_COMMIT_MS) item.reject(options.turnedAwayFor("waited too long to be committed"));
      else {
        inTime.push(item);
        deadlineMs = Math.min(deadlineMs, leftMs);
      }
    }
    if (inTime.length === 0) return;
    try {
      const events = inTime.map((item) => item.event);
      const written = await commitEvents(options.database, events, { ...options, deadlineMs });
      commits++;
      batches.observe(inTime.length);
      // The next statement is sent first, so that the database works on it while these events are answered.
      release();
      truncated += written.truncated.length;
      committed += settle(inTime, written, options.onCharged);
    } catch (error) {
      await settleFailure(inTime, error);
    }
  }

  /**
   * Answers a batch whose commit failed. A batch with a row that the database refuses is halved until that row is
   * alone, so that the other rows do not fail.
   */
  async function settleFailure(batch: readonly QueuedEvent[], error: unknown): Promise<void> {
    const [only] = batch;
    // Another process used the same claim at the same moment. Its event is committed before this error is raised, so
    // the second try finds the claim.
    if (constraintOf(error) === "claims_pkey") {
      await commit(batch);
      return;
    }
    if (isDataError(error) && only !== undefined) {
      if (batch.length === 1) {
        const reason = redactKeys(String(error));
        log.warn("An event was refused by the database", { event: only.event.uuid, reason }, { kind: {} });
        only.resolve({ kind: "not_storable" });
        return;
      }
      const half = Math.ceil(batch.length / 2);
      await commit(batch.slice(0, half));
      await commit(batch.slice(half));
      return;
    }
    for (const item of batch) {
      options.onUnknown(item.event.licenseUuid);
      item.reject(error);
    }
  }

  return { commit, stats: () => ({ commits, committed, truncated, batches: batches.counts() }) };
}
