/**
 * The machines that wait for a place of a full license.
 *
 * A machine that was refused is refused again from memory, without the database, as long as no place can be free. A place can
 * be free when the first place ends by itself, or when the license changes. New limits change the license, and so does the
 * release of a machine (see `0041_waits_and_texts.sql`): then the cache has another record of the key. A release in this
 * process counts at once, one in another process within a second, as every change does.
 *
 * Each machine gets its own moment to ask again. The moments of one license are so far apart that all its machines together
 * ask half as often as its key may. So a free place is found equally soon, however many machines wait. The more machines
 * wait, the longer each of them waits between two requests: ten seconds for a lone machine, and at most an hour. Chance
 * decides which machine gets the place: one that asks for the first time can be faster.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import { Refusal } from "../../base/refusal.ts";
import type { MachineName } from "./fingerprint.ts";

/** The wait of a lone machine, and the shortest wait. */
const LEAST_WAIT_MS = 10_000;
const MOST_WAIT_MS = 3_600_000;
/** For all machines of a license together; also for a key without a limit. */
const MOST_ASKS_A_MINUTE = 600;
/** If more machines wait, those that asked longest ago are forgotten: the database refuses them again. */
const MAX_MACHINES = 20_000;
/** A license beyond it is forgotten: the next of its machines waits like a lone one. */
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

/** A machine's request for a place. */
interface Asking {
  /** The record of the key. */
  readonly record: object;
  /** The most activations that the key may send in a minute; 0 means no limit. */
  readonly activationsAMinute: number;
}

/** Creates the memory of a process. */
export function createWaitingMachines(clock: Clock) {
  const machines = new LRUCache<string, Waiting>({ max: MAX_MACHINES });
  /** For each license, the latest moment that a machine has got, by the monotonic clock. */
  const latestMomentMs = new LRUCache<string, number>({ max: MAX_LICENSES });

  /** Returns the moment at which a machine may ask again: the one that it has, or else the next free one. */
  function findMoment({ licenseUuid, hash }: MachineName, betweenMs: number): number {
    const nowMs = clock.monotonicMs();
    const { askAtMs = 0 } = machines.get(hash) ?? {};
    if (askAtMs > nowMs) return askAtMs;
    const latestMs = latestMomentMs.get(licenseUuid) ?? 0;
    const next = Math.min(Math.max(nowMs + LEAST_WAIT_MS, latestMs + betweenMs), nowMs + MOST_WAIT_MS);
    latestMomentMs.set(licenseUuid, next);
    return next;
  }

  function refuse(
    machine: MachineName,
    waiting: Omit<Waiting, "askAtMs">,
    activationsAMinute: Asking["activationsAMinute"],
  ): Refusal {
    const askAtMs = findMoment(machine, betweenAsksMs(activationsAMinute));
    machines.set(machine.hash, { ...waiting, askAtMs });
    const { code, sentence, machines: places } = waiting.refusal;
    // The clock has fractions, and their sums are not exact.
    const retryAfterSeconds = Math.max(1, Math.ceil(Math.round(askAtMs - clock.monotonicMs()) / 1_000));
    return new Refusal(code, sentence, { ...(places && { machines: places }), retryAfterSeconds });
  }

  return {
    /** Returns the refusal of a machine that was refused before and cannot get a place yet; otherwise undefined. */
    findRefusal(machine: MachineName, { record, activationsAMinute }: Asking): Refusal | undefined {
      const known = machines.get(machine.hash);
      if (known === undefined || known.record !== record || clock.monotonicMs() >= known.fullUntilMs)
        return undefined;
      return refuse(machine, known, activationsAMinute);
    },
    /**
     * Remembers a machine that the database refused, and returns the refusal with the time to wait. The record of its key is
     * from before the statement, and so is `askedMs`, the time by the monotonic clock.
     */
    noteRefusal(
      machine: MachineName,
      refusal: Refusal,
      { record, activationsAMinute, askedMs }: Asking & { readonly askedMs: number },
    ): Refusal {
      const roomInMs = (refusal.retryAfterSeconds ?? Number.POSITIVE_INFINITY) * 1_000;
      // The database rounds the time up to whole seconds.
      return refuse(
        machine,
        { refusal, record, fullUntilMs: askedMs + roomInMs - 1_000 },
        activationsAMinute,
      );
    },
  };
}

/** Returns the time between the moments of two machines of a license, whose key may send so many activations a minute. */
function betweenAsksMs(activationsAMinute: number): number {
  const half = activationsAMinute / 2 || MOST_ASKS_A_MINUTE;
  return 60_000 / Math.max(1, Math.min(half, MOST_ASKS_A_MINUTE));
}
