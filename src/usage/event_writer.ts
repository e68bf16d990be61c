/**
 * The group commit: events that arrive together are committed together.
 *
 * A lone event does not wait. While one commit runs, the next batch collects events, so batches grow with the load. A
 * second commit runs at the same time as the first only if the second is full or the first takes long. Many small
 * commits would spend most of their time on the fixed cost of each. The events that wait are bounded in number, bytes
 * and age. An event that has waited too long to be answered in time is turned away before it is sent to the database.
 * So it is certain that this event was not stored.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { HistogramCounts } from "../base/histogram.ts";
import { DatabaseUnavailable } from "../database/mod.ts";
import { type BatchCommitsOptions, createBatchCommits } from "./_batch_commits.ts";
import { createClaims } from "./_claims.ts";
import { createCommitSchedule } from "./_commit_schedule.ts";
import { createEventQueue } from "./_event_queue.ts";
import type { Arrival, EventOutcome, UsageEvent } from "./event.ts";

/**
 * How events are grouped into commits. The product uses the defaults. A benchmark compares them with one statement for
 * each event.
 */
export interface EventGathering {
  /** The most events of one statement; 1,000 by default. */
  readonly maxEventsPerCommit?: number;
  /** The most statements that run at the same time; 2 by default. */
  readonly commitsInFlight?: number;
  /** After this time the next commit does not wait for a commit, which may be waiting for a lock; 25 by default. */
  readonly longCommitMs?: number;
}

interface EventWriterOptions extends EventGathering, Omit<BatchCommitsOptions, "turnedAwayFor"> {}

export interface EventWriter {
  /**
   * Commits an event. Resolves when the outcome is certain. Throws `DatabaseUnavailable` if the outcome is unknown, or
   * if the event is turned away, for example because the queue is full.
   */
  write(event: UsageEvent): Promise<EventOutcome>;
  /** Tells whether a batch of the largest size can wait beside the events that wait now. */
  hasRoom(): boolean;
  /** Commits the queued events until the deadline. Later events, and events left then, are turned away. */
  stop(deadlineMs: number): Promise<void>;
  stats(): {
    /** Events that wait for a commit, or for another event with their claim. */
    readonly queued: number;
    readonly queuedBytes: number;
    readonly commits: number;
    readonly committed: number;
    /** How many of the committed events were stored without their texts. */
    readonly truncated: number;
    readonly turnedAway: number;
    /** The number of events of each commit. */
    readonly batches: HistogramCounts;
  };
}

const MAX_EVENTS_PER_COMMIT = 1_000;
const COMMITS_IN_FLIGHT = 2;
const LONG_COMMIT_MS = 25;

export function createEventWriter(options: EventWriterOptions): EventWriter {
  const {
    clock,
    maxEventsPerCommit = MAX_EVENTS_PER_COMMIT,
    commitsInFlight = COMMITS_IN_FLIGHT,
    longCommitMs = LONG_COMMIT_MS,
  } = options;
  const queue = createEventQueue(maxEventsPerCommit);
  const { commit, stats } = createBatchCommits({ ...options, turnedAwayFor });
  const schedule = createCommitSchedule({ queue, commit, commitsInFlight, longCommitMs });
  const claims = createClaims({ enqueue, leave: queue.leave });
  let turnedAway = 0;
  let stopping = false;
  let stopped = false;

  function turnedAwayFor(why: string): DatabaseUnavailable {
    turnedAway++;
    return new DatabaseUnavailable(why);
  }

  function enqueue(event: UsageEvent, arrival: Arrival): Promise<EventOutcome> {
    return new Promise((resolve, reject) => {
      if (stopped) {
        queue.leave(arrival);
        return reject(turnedAwayFor("stopping"));
      }
      queue.push({ event, arrival, resolve, reject });
      schedule.arrived();
    });
  }

  return {
    write(event) {
      const bytes = 300 + (event.metadata?.length ?? 0) + (event.errorMessage?.length ?? 0);
      if (stopping) return Promise.reject(turnedAwayFor("stopping"));
      if (!queue.admit(bytes)) return Promise.reject(turnedAwayFor("event queue full"));
      const arrival = { bytes, atMs: clock.monotonicMs() };
      const { claim } = event;
      return claim === null ? enqueue(event, arrival) : claims.write(event, { claim, arrival });
    },
    hasRoom: () => !stopping && queue.hasRoom(),
    async stop(deadlineMs) {
      stopping = true;
      const until = clock.monotonicMs() + deadlineMs;
      while ((queue.waiting().events > 0 || schedule.isBusy()) && clock.monotonicMs() < until) {
        await sleep(5);
      }
      stopped = true;
      for (const { reject } of queue.takeAll()) reject(turnedAwayFor("stopping"));
    },
    stats() {
      const { events, bytes } = queue.waiting();
      return { queued: events, queuedBytes: bytes, turnedAway, ...stats() };
    },
  };
}
