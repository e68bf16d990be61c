/**
 * The rate windows of keys that all processes of a database share: never more than the limit in any 60 s, whatever the
 * number of processes, by the clock of the database.
 *
 * One statement at a time counts and answers all requests that wait; the next is sent when it returns. So an idle
 * service answers at once, and a busy one asks for many keys together. A key whose window is known to be full is refused
 * without a statement until the second that the statement named.
 *
 * A request whose statement has an unknown outcome is not admitted, and may stay counted for a minute.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { type Database, DatabaseUnavailable } from "../database/mod.ts";
import type { KeyWindows, Verdict } from "../limits/mod.ts";
import { type Counted, countBatch, type TakenBack, takeBackBatch } from "./count_batch.ts";

export interface SharedWindowsOptions {
  readonly database: Database;
  readonly clock: Clock;
}

export interface SharedWindows {
  /** Returns the windows of an endpoint with `limit` requests in any 60 s, 1 or more. */
  windowsOf(endpoint: string, limit: number): KeyWindows;
}

const MAX_WAITING = 20_000;
const MAX_WINDOWS_IN_BATCH = 1_000;
/** A request that has waited this long is turned away, because its statement would take more time after that. */
const MAX_WAIT_MS = 1_000;
const DEADLINE_MS = 1_000;
const MAX_TAKEN_BACK = 10_000;
const MAX_FULL = 100_000;

interface Waiter {
  readonly sinceMs: number;
  /** 1 for a request to count, 0 for a look at the window. */
  readonly wanted: number;
  readonly resolve: (verdict: Verdict) => void;
  readonly reject: (reason: unknown) => void;
}

/** The requests of one key at one endpoint that wait. */
interface Line {
  readonly keyUuid: string;
  readonly endpoint: string;
  readonly limit: number;
  readonly waiters: Waiter[];
}

/** The refusal of a full window, until `untilMs` by the monotonic clock. */
interface Full {
  readonly verdict: Verdict;
  readonly sentMs: number;
  readonly untilMs: number;
}

/** Creates the windows. One long function, because its closures share the lines and what is known of full windows. */
export function createSharedWindows({ database, clock }: SharedWindowsOptions): SharedWindows {
  const lines = new Map<string, Line>();
  const full = new LRUCache<string, Full>({ max: MAX_FULL });
  const takenBack = new Map<string, TakenBack>();
  let size = 0;
  let isRunning = false;

  function schedule() {
    if (isRunning) return;
    isRunning = true;
    // Requests that this turn of the event loop has already read join the same statement.
    setImmediate(run);
  }

  async function run() {
    while (lines.size > 0 || takenBack.size > 0) {
      if (takenBack.size > 0) await sendTakenBack();
      if (lines.size > 0) await sendLines(takeLines());
    }
    isRunning = false;
  }

  async function sendTakenBack() {
    const taken = [...takenBack.values()];
    takenBack.clear();
    // If it fails, the requests stay counted for a minute.
    await takeBackBatch(database, taken, DEADLINE_MS).catch(() => {});
  }

  function takeLines(): Line[] {
    const taken: Line[] = [];
    const nowMs = clock.monotonicMs();
    for (const [name, line] of lines) {
      lines.delete(name);
      size -= line.waiters.length;
      const waiters = line.waiters.filter((waiter) => {
        const isInTime = nowMs - waiter.sinceMs < MAX_WAIT_MS;
        if (!isInTime) waiter.reject(new DatabaseUnavailable("waited too long to be counted"));
        return isInTime;
      });
      if (waiters.length > 0) taken.push({ ...line, waiters });
      if (taken.length === MAX_WINDOWS_IN_BATCH) break;
    }
    return taken;
  }

  async function sendLines(batch: readonly Line[]) {
    const sentMs = clock.monotonicMs();
    try {
      const asked = batch.map(({ waiters, ...line }) => ({ ...line, wanted: sumOf(waiters) }));
      const counted = await countBatch(database, asked, DEADLINE_MS);
      const byName = new Map(counted.map((window) => [nameOf(window.endpoint, window.keyUuid), window]));
      for (const line of batch) {
        const window = byName.get(nameOf(line.endpoint, line.keyUuid));
        if (window === undefined) throw new Error("The statement returns each window");
        settle(line, window, sentMs);
      }
    } catch (error) {
      for (const { waiters } of batch) for (const waiter of waiters) waiter.reject(error);
    }
  }

  function settle({ waiters, limit, keyUuid, endpoint }: Line, window: Counted, sentMs: number) {
    let left = window.granted;
    for (const { wanted, resolve } of waiters) {
      const isCounted = wanted > 0 && left > 0;
      if (isCounted) left--;
      // The first of the granted requests sees more room than the last.
      resolve(toVerdict(window, { limit, total: window.total - left, isCounted, wanted }));
    }
    if (window.roomSecond === null) return;
    const verdict = toVerdict(window, { limit, total: window.total, isCounted: false, wanted: 1 });
    const untilMs = sentMs + window.roomSecond * 1_000 - window.nowMs;
    full.set(nameOf(endpoint, keyUuid), { verdict, sentMs, untilMs });
  }

  /** Returns the refusal of a window that is known to be full. */
  function refusalOf(name: string, nowMs: number): Verdict | undefined {
    const known = full.get(name);
    if (known === undefined) return undefined;
    if (nowMs >= known.untilMs) {
      full.delete(name);
      return undefined;
    }
    return {
      ...known.verdict,
      retryAfterSeconds: toRetryAfter(known.untilMs - nowMs),
      resetAfterMs: Math.max(0, known.verdict.resetAfterMs - (nowMs - known.sentMs)),
    };
  }

  function ask(name: string, line: Omit<Line, "waiters">, wanted: number): Promise<Verdict> {
    return new Promise((resolve, reject) => {
      if (size >= MAX_WAITING) return reject(new DatabaseUnavailable("too many requests wait to be counted"));
      const waiting = lines.get(name) ?? { ...line, waiters: [] };
      waiting.waiters.push({ sinceMs: clock.monotonicMs(), wanted, resolve, reject });
      lines.set(name, waiting);
      size++;
      schedule();
    });
  }

  function takeBack(window: Omit<TakenBack, "count">) {
    const name = nameOf(window.endpoint, window.keyUuid);
    full.delete(name);
    const of = `${name}/${window.second}`;
    const count = (takenBack.get(of)?.count ?? 0) + 1;
    if (count === 1 && takenBack.size >= MAX_TAKEN_BACK) return;
    takenBack.set(of, { ...window, count });
    schedule();
  }

  return {
    windowsOf(endpoint, limit) {
      let refused = 0;
      return {
        take({ uuid }, nowMs) {
          const name = nameOf(endpoint, uuid);
          const refusal = refusalOf(name, nowMs);
          if (refusal !== undefined) {
            refused++;
            return refusal;
          }
          return ask(name, { keyUuid: uuid, endpoint, limit }, 1).then((verdict) => {
            if (!verdict.allowed) refused++;
            return verdict;
          });
        },
        peek({ uuid }, nowMs) {
          const name = nameOf(endpoint, uuid);
          return refusalOf(name, nowMs) ?? ask(name, { keyUuid: uuid, endpoint, limit }, 0);
        },
        takeBack({ uuid }, verdict) {
          const { countedSecond, remaining } = verdict;
          if (countedSecond === undefined) return verdict;
          takeBack({ keyUuid: uuid, endpoint, second: countedSecond });
          return { ...verdict, allowed: true, remaining: remaining + 1, countedSecond: undefined };
        },
        stats: () => ({ windows: 0, refused, overflowHits: 0 }),
      };
    },
  };
}

function nameOf(endpoint: string, keyUuid: string): string {
  return `${endpoint}/${keyUuid}`;
}

function sumOf(waiters: readonly Waiter[]): number {
  return waiters.reduce((sum, { wanted }) => sum + wanted, 0);
}

interface Share {
  readonly limit: number;
  /** The requests that counted after this one. */
  readonly total: number;
  readonly isCounted: boolean;
  readonly wanted: number;
}

function toVerdict(
  { second, roomSecond, nowMs }: Counted,
  { limit, total, isCounted, wanted }: Share,
): Verdict {
  const allowed = isCounted || (wanted === 0 && total < limit);
  return {
    allowed,
    limit,
    remaining: Math.max(0, limit - total),
    retryAfterSeconds: allowed ? 0 : toRetryAfter((roomSecond ?? second + 1) * 1_000 - nowMs),
    countedSecond: isCounted ? second : undefined,
    resetAfterMs: total === 0 ? 0 : (second + 61) * 1_000 - nowMs,
  };
}

/** Returns whole seconds from 1 to 61. */
function toRetryAfter(ms: number): number {
  return Math.min(61, Math.max(1, Math.ceil(ms / 1_000)));
}
