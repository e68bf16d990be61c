/**
 * Keeps the answers of each client, to compare them with the database. It also checks the promises that a single answer
 * can break: its status, its form, its time.
 */
import type { Outcome } from "./http_client.ts";

/** A broken promise with its evidence. */
export interface Violation {
  readonly promise: string;
  readonly evidence: Readonly<Record<string, unknown>>;
}

/** The events that were sent with one key. */
export interface Tally {
  /** Units of quota of the acknowledged events, and of the events with an unknown result. */
  acknowledged: number;
  unknown: number;
  /** The numbers of acknowledged and unknown events that use no quota. */
  otherAcknowledged: number;
  otherUnknown: number;
}

export interface Figures {
  requests: number;
  answers: Record<number, number>;
  /** Connections that were refused or lost while the service was down. */
  withoutAnswer: number;
  acknowledged: number;
  slowestAnswerMs: number;
}

/** Promise 6: every answer arrives within this time. */
export const ANSWER_LIMIT_MS = 5_000;

export interface Ledger {
  readonly tallies: Map<string, Tally>;
  readonly violations: Violation[];
  /** The figures since the last {@linkcode startRound}. */
  readonly round: Figures;
  readonly total: Figures;
  /** Identifiers of the events that were acknowledged in this round. */
  readonly acknowledgedNow: string[];
  readonly acknowledgedAll: Set<string>;
  startRound(): void;
  tallyOf(apiKey: string): Tally;
  noteAcknowledged(apiKey: string, eventId: string, options: { readonly usesQuota: boolean }): void;
  noteUnknown(apiKey: string, options: { readonly usesQuota: boolean }): void;
  /** Judges one outcome; with `mayBeLost`, if the service was down meanwhile, a lost request is allowed. */
  judge(asked: string, outcome: Outcome, options: JudgeOptions): void;
  violate(promise: string, evidence: Violation["evidence"]): void;
}

export interface JudgeOptions {
  readonly expected: readonly number[];
  readonly mayBeLost: boolean;
}

export function createLedger(): Ledger {
  const figures = (): Figures => ({
    ...{ requests: 0, answers: {}, withoutAnswer: 0, acknowledged: 0, slowestAnswerMs: 0 },
  });
  const tallies = new Map<string, Tally>();
  const violations: Violation[] = [];
  const acknowledgedAll = new Set<string>();
  const acknowledgedNow: string[] = [];
  const total = figures();
  const round = figures();

  function violate(promise: string, evidence: Violation["evidence"]): void {
    violations.push({ promise, evidence });
  }

  function tallyOf(apiKey: string): Tally {
    let tally = tallies.get(apiKey);
    if (tally === undefined) {
      tally = { acknowledged: 0, unknown: 0, otherAcknowledged: 0, otherUnknown: 0 };
      tallies.set(apiKey, tally);
    }
    return tally;
  }

  return {
    ...{ tallies, violations, round, total, acknowledgedNow, acknowledgedAll, violate, tallyOf },
    startRound() {
      Object.assign(round, figures());
      acknowledgedNow.length = 0;
    },
    noteAcknowledged(apiKey, eventId, { usesQuota }) {
      if (acknowledgedAll.has(eventId)) {
        violate("Every acknowledged event is one of its own", { event: eventId });
      }
      acknowledgedAll.add(eventId);
      acknowledgedNow.push(eventId);
      tallyOf(apiKey)[usesQuota ? "acknowledged" : "otherAcknowledged"]++;
      round.acknowledged++;
      total.acknowledged++;
    },
    noteUnknown(apiKey, { usesQuota }) {
      tallyOf(apiKey)[usesQuota ? "unknown" : "otherUnknown"]++;
    },
    judge(asked, outcome, { expected, mayBeLost }) {
      for (const sums of [round, total]) {
        sums.requests++;
        if (outcome.kind === "none") sums.withoutAnswer++;
        else {
          sums.answers[outcome.status] = (sums.answers[outcome.status] ?? 0) + 1;
          sums.slowestAnswerMs = Math.max(sums.slowestAnswerMs, outcome.tookMs);
        }
      }
      if (outcome.kind === "none") {
        if (outcome.why === "late")
          violate(`Every answer comes within ${ANSWER_LIMIT_MS} ms`, { asked, ...outcome });
        else if (outcome.why === "garbled") violate("Every answer is HTTP with JSON", { asked, ...outcome });
        else if (!mayBeLost) violate("A running service answers every request", { asked, ...outcome });
        return;
      }
      const { status, headers, body } = outcome;
      if (!expected.includes(status)) {
        violate(`Expected one of ${expected.join(", ")}`, { asked, status, body });
      } else if (
        status === 503 &&
        !asked.includes("/api/health") &&
        (body.code !== "SERVICE_UNAVAILABLE" || !headers.has("retry-after"))
      ) {
        violate("503 is SERVICE_UNAVAILABLE with Retry-After", { asked, body });
      }
    },
  };
}
