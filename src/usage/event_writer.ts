/**
 * The group commit: events that arrive together are committed together.
 *
 * A lone event waits for nothing. While one commit runs the next batch gathers, so batches grow with the
 * load. A second commit runs beside the first only when it is full, or when the first takes long: most of the
 * time of many small ones would go into what each costs, whatever it carries. Events that wait are bounded in
 * number and bytes, and by age: one that has waited too long to be answered in time is turned away before it
 * is sent, so its fate is known.
 */
import type { Clock } from "../clock.ts";
import { constraintOf, type Database, DatabaseUnavailable, isDataError } from "../database/mod.ts";
import { Histogram, type HistogramCounts } from "../histogram.ts";
import type { Log } from "../log.ts";
import { redactKeys } from "../secrets/mod.ts";
import { createClaims } from "./_claims.ts";
import { type CommittedBatch, commitEvents, type Grant, type KnownEvent } from "./commit_events.ts";
import type { Arrival, EventOutcome, UsageEvent } from "./event.ts";
import { findDifference } from "./event_digest.ts";

/** How events are gathered. Fixed in the product; a benchmark compares it with one statement an event. */
export interface EventGathering {
  /** The most that one statement carries; 1,000 by default. */
  readonly maxEventsPerCommit?: number;
  /** How many statements run side by side at most; 2 by default. */
  readonly commitsInFlight?: number;
  /** From when on a commit is not waited for, since it may stand behind a lock; 25 by default. */
  readonly longCommitMs?: number;
}

export interface EventWriterOptions extends EventGathering {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly processUuid: string;
  /** Told the month's new use of each license that a commit charged, before the events are answered. */
  readonly onCharged: (grant: Grant, receivedAtMs: number) => void;
  /** Told of licenses whose commit may or may not have taken effect. */
  readonly onUnknown: (licenseUuid: string) => void;
}

export interface EventWriter {
  /**
   * Resolves when the event's fate is certain; throws `DatabaseUnavailable` when it is not, or when the
   * queue is full.
   */
  write(event: UsageEvent): Promise<EventOutcome>;
  /** Commits what is queued, up to the deadline; what arrives later is turned away. */
  stop(deadlineMs: number): Promise<void>;
  stats(): {
    /** Events that wait for a commit, or for another event with their claim. */
    readonly queued: number;
    readonly queuedBytes: number;
    readonly commits: number;
    readonly committed: number;
    readonly turnedAway: number;
    /** How many events each commit carried. */
    readonly batches: HistogramCounts;
  };
}

const MAX_WAITING = 20_000;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
const MAX_EVENTS_PER_COMMIT = 1_000;
/** So many are worth a commit of their own at once: beyond, an event costs the database hardly less. */
const FULL_COMMIT = 100;
const LONG_COMMIT_MS = 25;
/** A statement that is larger could miss its deadline for its size alone. */
const MAX_BATCH_BYTES = 2 * 1024 * 1024;
const COMMITS_IN_FLIGHT = 2;
const BATCH_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, MAX_EVENTS_PER_COMMIT];
/** From its arrival an event is answered within this, waiting and commit together. */
const BUDGET_MS = 2_000;
/** The least that a commit is given: an event with less time left is turned away. */
const LEAST_COMMIT_MS = 700;
const DAY_MS = 86_400_000;

interface Item {
  readonly event: UsageEvent;
  readonly arrival: Arrival;
  readonly resolve: (outcome: EventOutcome) => void;
  readonly reject: (reason: unknown) => void;
}

export function createEventWriter(options: EventWriterOptions): EventWriter {
  const {
    clock,
    maxEventsPerCommit = MAX_EVENTS_PER_COMMIT,
    commitsInFlight = COMMITS_IN_FLIGHT,
    longCommitMs = LONG_COMMIT_MS,
  } = options;
  let queue: Item[] = [];
  const claims = createClaims({ enqueue, leave });
  /** Those of the queue and those that wait for another with their claim. */
  let waiting = 0;
  let waitingBytes = 0;
  let inFlight = 0;
  /** Of those in flight, how many take long. */
  let slow = 0;
  const fullCommit = Math.min(FULL_COMMIT, maxEventsPerCommit);
  const batches = new Histogram(BATCH_BOUNDS);
  let commits = 0;
  let committed = 0;
  let turnedAway = 0;
  let scheduled = false;
  let stopping = false;
  let stopped = false;

  function turnedAwayFor(why: string): DatabaseUnavailable {
    turnedAway++;
    return new DatabaseUnavailable(why);
  }

  function leave({ bytes }: Arrival) {
    waiting--;
    waitingBytes -= bytes;
  }

  /**
   * Takes the oldest events of one day, as many as one statement should carry: no more than make it full, so
   * that answering them and the next commit go on side by side, or half of what waits where that is more.
   */
  function takeBatch(): Item[] {
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
    const batch = queue.slice(0, size);
    queue = queue.slice(size);
    for (const { arrival } of batch) leave(arrival);
    return batch;
  }

  /** `release` is called once the database is done with the batch, before its events are answered. */
  async function commit(batch: readonly Item[], release = () => {}): Promise<void> {
    const nowMs = clock.monotonicMs();
    const inTime: Item[] = [];
    let deadlineMs = BUDGET_MS;
    for (const item of batch) {
      const leftMs = BUDGET_MS - (nowMs - item.arrival.atMs);
      if (leftMs < LEAST_COMMIT_MS) item.reject(turnedAwayFor("waited too long to be committed"));
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
      settle(inTime, written);
    } catch (error) {
      await settleFailure(inTime, error);
    }
  }

  function settle(batch: readonly Item[], { grants, known }: CommittedBatch) {
    const knownAs = new Map(known.map((event) => [batch[event.index]?.event, event]));
    const left = new Map<string, { granted: number; given: number; used: number }>();
    for (const grant of grants) {
      left.set(grant.licenseUuid, { granted: grant.granted, given: 0, used: grant.used });
      options.onCharged(grant, batch[0]?.event.receivedAtMs ?? 0);
    }
    for (const { event, resolve } of batch) {
      const before = knownAs.get(event);
      if (before !== undefined) {
        resolve(outcomeOfKnown(event, before));
        continue;
      }
      const share = left.get(event.licenseUuid);
      if (event.type !== "inference") {
        committed++;
        resolve({ kind: "committed", eventUuid: event.uuid, used: null });
      } else if (share !== undefined && share.given < share.granted) {
        committed++;
        share.given++;
        const used = share.used - share.granted + share.given;
        resolve({ kind: "committed", eventUuid: event.uuid, used });
      } else {
        resolve({ kind: "quota_exceeded", used: share?.used ?? 0 });
      }
    }
  }

  /** One row that the database refuses must not fail its neighbours: the batch is halved until it is alone. */
  async function settleFailure(batch: readonly Item[], error: unknown): Promise<void> {
    const [only] = batch;
    // Another process brought the same claim just now: its event is committed by the time we are told.
    if (constraintOf(error) === "claims_pkey") {
      await commit(batch);
      return;
    }
    if (isDataError(error) && only !== undefined) {
      if (batch.length === 1) {
        const reason = redactKeys(String(error));
        options.log.warn(
          "An event was refused by the database",
          { event: only.event.uuid, reason },
          { kind: {} },
        );
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
    await commit(takeBatch(), release);
    release();
  }

  function mayCommit(): boolean {
    return inFlight < commitsInFlight && (inFlight === slow || queue.length >= fullCommit);
  }

  function pump() {
    while (queue.length > 0 && mayCommit()) void run();
  }

  function enqueue(event: UsageEvent, arrival: Arrival): Promise<EventOutcome> {
    return new Promise((resolve, reject) => {
      if (stopped) {
        leave(arrival);
        return reject(turnedAwayFor("stopping"));
      }
      queue.push({ event, arrival, resolve, reject });
      if (!mayCommit()) return;
      if (queue.length >= fullCommit) return pump();
      if (scheduled) return;
      scheduled = true;
      // The requests that this turn of the loop has read already join the same commit.
      setImmediate(() => {
        scheduled = false;
        pump();
      });
    });
  }

  return {
    write(event) {
      const bytes = 300 + (event.metadata?.length ?? 0) + (event.errorMessage?.length ?? 0);
      if (stopping) return Promise.reject(turnedAwayFor("stopping"));
      if (waiting >= MAX_WAITING || waitingBytes + bytes > MAX_WAITING_BYTES) {
        return Promise.reject(turnedAwayFor("event queue full"));
      }
      waiting++;
      waitingBytes += bytes;
      const arrival = { bytes, atMs: clock.monotonicMs() };
      const { claim } = event;
      return claim === null ? enqueue(event, arrival) : claims.write(event, { claim, arrival });
    },
    async stop(deadlineMs) {
      stopping = true;
      const until = clock.monotonicMs() + deadlineMs;
      while ((waiting > 0 || inFlight > 0 || scheduled) && clock.monotonicMs() < until) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      stopped = true;
      for (const { arrival, reject } of queue.splice(0)) {
        leave(arrival);
        reject(turnedAwayFor("stopping"));
      }
    },
    stats: () => ({
      queued: waiting,
      queuedBytes: waitingBytes,
      commits,
      committed,
      turnedAway,
      batches: batches.counts(),
    }),
  };
}

/** The outcome of an event whose claim was known: what it stands for is the same event, or another one. */
function outcomeOfKnown({ claim }: UsageEvent, known: KnownEvent): EventOutcome {
  const field = known.digest === null ? undefined : findDifference(known.digest, claim?.digest ?? "");
  const isSame = known.digest === null ? known.eventHash === claim?.eventHash : field === undefined;
  return isSame
    ? { kind: "committed", eventUuid: known.eventUuid, used: null }
    : { kind: "claim_mismatch", field };
}
