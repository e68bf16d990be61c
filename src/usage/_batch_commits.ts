/** Commits batches, and answers each event of a batch that the database took or refused. */
import type { Clock } from "../clock.ts";
import { constraintOf, type Database, type DatabaseUnavailable, isDataError } from "../database/mod.ts";
import { Histogram, type HistogramCounts } from "../histogram.ts";
import type { Log } from "../log.ts";
import { redactKeys } from "../secrets/mod.ts";
import type { QueuedEvent } from "./_event_queue.ts";
import { settle } from "./_settlement.ts";
import { commitEvents, type Grant } from "./commit_events.ts";

export interface BatchCommitsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly processUuid: string;
  /** Told the month's new use of each license that a commit charged, before the events are answered. */
  readonly onCharged: (grant: Grant, receivedAtMs: number) => void;
  /** Told of licenses whose commit may or may not have taken effect. */
  readonly onUnknown: (licenseUuid: string) => void;
  /** Counts an event that is not sent, and gives what it is answered with. */
  readonly turnedAwayFor: (why: string) => DatabaseUnavailable;
}

export interface BatchCommits {
  /** `release` is called once the database is done with the batch, before its events are answered. */
  commit(batch: readonly QueuedEvent[], release?: () => void): Promise<void>;
  stats(): { readonly commits: number; readonly committed: number; readonly batches: HistogramCounts };
}

const BATCH_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
/** From its arrival an event is answered within this, waiting and commit together. */
const BUDGET_MS = 2_000;
/** The least that a commit is given: an event with less time left is turned away. */
const LEAST_COMMIT_MS = 700;

export function createBatchCommits(options: BatchCommitsOptions): BatchCommits {
  const { clock, log } = options;
  const batches = new Histogram(BATCH_BOUNDS);
  let commits = 0;
  let committed = 0;

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
      // The next statement first: the database works on it while these events are answered.
      release();
      committed += settle(inTime, written, options.onCharged);
    } catch (error) {
      await settleFailure(inTime, error);
    }
  }

  /** One row that the database refuses must not fail its neighbours: the batch is halved until it is alone. */
  async function settleFailure(batch: readonly QueuedEvent[], error: unknown): Promise<void> {
    const [only] = batch;
    // Another process brought the same claim just now: its event is committed by the time we are told.
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

  return { commit, stats: () => ({ commits, committed, batches: batches.counts() }) };
}
