/**
 * The machines that wait for a place of a full license.
 *
 * A machine that was refused is refused again from memory, without the database, until a place can be free: until the first
 * place ends by itself, or until the license changes. A release changes it, and so do other limits (see
 * `0041_waits_and_texts.sql`): the cache then has another record of the key. A release in this process counts at once, one
 * in another process within a second, as every change does.
 *
 * Each machine gets its own moment to ask again, one after the other, so that together they ask half as often as the key may.
 * So a free place is found soon however many wait, and each of them asks the less often the more of them wait. Who gets
 * the place is chance: a machine that asks for the first time can be faster.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import { Refusal } from "../../base/refusal.ts";
import type { MachineName } from "./fingerprint.ts";

/** A lone machine asks again after this time. */
const LEAST_WAIT_MS = 10_000;
const MOST_WAIT_MS = 3_600_000;
/** For a key without a limit. */
const MOST_ASKS_A_MINUTE = 600;
/** Further machines are not refused from memory. */
const MAX_MACHINES = 20_000;
const MAX_LICENSES = 10_000;

interface Waiting {
  readonly refusal: Refusal;
  /** The record of the key when the machine was refused. */
  readonly record: object;
  /** Until when no place ends by itself, by the monotonic clock. */
  readonly fullUntilMs: number;
  /** When the machine may ask again, by the monotonic clock. */
  readonly askAtMs: number;
}

/** Creates the memory of a process. `activationsAMinute` is the limit of a key; 0 means none. */
export function createWaitingMachines(clock: Clock, activationsAMinute: number) {
  const machines = new LRUCache<string, Waiting>({ max: MAX_MACHINES });
  /** For each license, the latest moment that a machine has got. */
  const lastAskMs = new LRUCache<string, number>({ max: MAX_LICENSES });
  const asksAMinute = Math.max(1, Math.min(activationsAMinute / 2 || MOST_ASKS_A_MINUTE, MOST_ASKS_A_MINUTE));
  const betweenMs = 60_000 / asksAMinute;

  /** Returns the moment at which a machine may ask again: the one that it has, or else the next free one. */
  function findMoment({ licenseUuid, hash }: MachineName, nowMs: number): number {
    const { askAtMs = 0 } = machines.get(hash) ?? {};
    if (askAtMs > nowMs) return askAtMs;
    const last = lastAskMs.get(licenseUuid) ?? 0;
    const next = Math.min(Math.max(nowMs + LEAST_WAIT_MS, last + betweenMs), nowMs + MOST_WAIT_MS);
    lastAskMs.set(licenseUuid, next);
    return next;
  }

  function refuse(machine: MachineName, waiting: Omit<Waiting, "askAtMs">): Refusal {
    const nowMs = clock.monotonicMs();
    const askAtMs = findMoment(machine, nowMs);
    machines.set(machine.hash, { ...waiting, askAtMs });
    const { code, sentence, machines: places } = waiting.refusal;
    // The clock has fractions, and their sums are not exact.
    const retryAfterSeconds = Math.max(1, Math.ceil(Math.round(askAtMs - nowMs) / 1_000));
    return new Refusal(code, sentence, { ...(places && { machines: places }), retryAfterSeconds });
  }

  return {
    /** Returns the refusal of a machine that was refused before and cannot get a place yet; otherwise undefined. */
    findRefusal(machine: MachineName, record: object): Refusal | undefined {
      const known = machines.get(machine.hash);
      if (known === undefined || known.record !== record || clock.monotonicMs() >= known.fullUntilMs)
        return undefined;
      return refuse(machine, known);
    },
    /**
     * Remembers a machine that the database refused, and returns the refusal with the time to wait. `record` is the record
     * of its key, and `askedMs` the time by the monotonic clock, both from before the statement.
     */
    note(
      machine: MachineName,
      refusal: Refusal,
      { record, askedMs }: { readonly record: object; readonly askedMs: number },
    ): Refusal {
      const roomInMs = (refusal.retryAfterSeconds ?? Number.POSITIVE_INFINITY) * 1_000;
      // The database rounds the time up.
      return refuse(machine, { refusal, record, fullUntilMs: askedMs + roomInMs - 1_000 });
    },
  };
}
