/**
 * The rate windows of keys that all processes of a database share: never more than the limit in any 60 s, whatever the
 * number of processes, by the clock of the database.
 *
 * One statement at a time counts and answers all requests that wait; the next is sent when it returns. So an idle
 * service answers at once, and a busy one asks for many keys together. A key whose window is known to be full is refused
 * without a statement until the second that the statement named.
 *
 * A request whose statement has an unknown outcome is not admitted, and may stay counted for a minute. The same is true
 * for a request that should be taken back.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { type Database, DatabaseUnavailable } from "../database/mod.ts";
import type { KeyWindows, Verdict } from "../limits/mod.ts";
import { type Counted, countBatch, type WindowRequests } from "./count_batch.ts";

/** The most requests that wait, to be counted or to be taken back. */
const MAX_WAITING = 20_000;
const MAX_WINDOWS_IN_BATCH = 1_000;
/** A request that has waited this long is turned away, because its statement would take more time after that. */
const MAX_WAIT_MS = 1_000;
const DEADLINE_MS = 1_000;
const MAX_FULL = 100_000;

interface Waiter {
  readonly sinceMs: number;
  /** 1 for a request to count, 0 for a look at the window. */
  readonly wanted: number;
  readonly resolve: (verdict: Verdict) => void;
  readonly reject: (reason: unknown) => void;
}

/** The requests of one key at one endpoint that wait. */
interface Line extends Omit<WindowRequests, "wanted"> {
  readonly waiters: Waiter[];
  readonly takenBack: number[];
}

/** The refusal of a full window, until `untilMs` by the monotonic clock. */
interface Full {
  readonly verdict: Verdict;
  readonly sentMs: number;
  readonly untilMs: number;
}

/**
 * Returns a function that makes the windows of an endpoint with `limit` requests in any 60 s, 1 or more. The windows of
 * all endpoints wait together.
 *
 * One long function, because its closures share the lines and what is known of full windows.
 */
export function createSharedWindows({
  database,
  clock,
}: {
  readonly database: Database;
  readonly clock: Clock;
}): (endpoint: string, limit: number) => KeyWindows {
  const lines = new Map<string, Line>();
  const full = new LRUCache<string, Full>({ max: MAX_FULL });
  /** How many waiters and requests to take back the lines have. */
  let size = 0;
  let isRunning = false;

  /** Returns the line of a window for one more request. */
  function joinLine(name: string, window: Pick<Line, "keyUuid" | "endpoint" | "limit">): Line {
    const line = lines.get(name) ?? { ...window, waiters: [], takenBack: [] };
    lines.set(name, line);
    size++;
    // Requests that this turn of the event loop has already read join the same statement.
    if (!isRunning) setImmediate(run);
    isRunning = true;
    return line;
  }

  async function run() {
    while (lines.size > 0) await send(takeLines());
    isRunning = false;
  }

  function takeLines(): Line[] {
    const taken: Line[] = [];
    const nowMs = clock.monotonicMs();
    for (const [name, line] of lines) {
      lines.delete(name);
      size -= line.waiters.length + line.takenBack.length;
      const waiters = line.waiters.filter(({ sinceMs, reject }) => {
        const isInTime = nowMs - sinceMs < MAX_WAIT_MS;
        if (!isInTime) reject(new DatabaseUnavailable("waited too long to be counted"));
        return isInTime;
      });
      if (waiters.length + line.takenBack.length > 0) taken.push({ ...line, waiters });
      if (taken.length === MAX_WINDOWS_IN_BATCH) break;
    }
    return taken;
  }

  async function send(batch: readonly Line[]) {
    if (batch.length === 0) return;
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
    const { granted, total, second, roomSecond, nowMs } = window;
    const leftMs = (roomSecond ?? second) * 1_000 - nowMs;
    const refusal: Verdict = {
      allowed: false,
      limit,
      remaining: 0,
      retryAfterSeconds: toRetryAfter(leftMs),
      countedSecond: undefined,
      resetAfterMs: total === 0 ? 0 : (second + 61) * 1_000 - nowMs,
    };
    let left = granted;
    for (const { wanted, resolve } of waiters) {
      const isCounted = wanted > 0 && left > 0;
      if (isCounted) left--;
      // The first of the granted requests sees more room than the last.
      const remaining = limit - (total - left);
      const countedSecond = isCounted ? second : undefined;
      const allowed = isCounted || (wanted === 0 && remaining > 0);
      resolve(allowed ? { ...refusal, allowed, remaining, retryAfterSeconds: 0, countedSecond } : refusal);
    }
    const name = nameOf(endpoint, keyUuid);
    if (roomSecond === null) full.delete(name);
    else full.set(name, { verdict: refusal, sentMs, untilMs: sentMs + leftMs });
  }

  /** Returns the refusal of a window that is known to be full. */
  function refusalOf(name: string, nowMs: number): Verdict | undefined {
    const known = full.get(name);
    if (known === undefined || nowMs >= known.untilMs) return undefined;
    return {
      ...known.verdict,
      retryAfterSeconds: toRetryAfter(known.untilMs - nowMs),
      resetAfterMs: Math.max(0, known.verdict.resetAfterMs - (nowMs - known.sentMs)),
    };
  }

  return (endpoint, limit) => {
    let refused = 0;
    let waiting = 0;
    let uncounted = 0;

    async function ask(keyUuid: string, wanted: number): Promise<Verdict> {
      waiting++;
      try {
        const verdict = await new Promise<Verdict>((resolve, reject) => {
          if (size >= MAX_WAITING) throw new DatabaseUnavailable("too many requests wait to be counted");
          const line = joinLine(nameOf(endpoint, keyUuid), { keyUuid, endpoint, limit });
          line.waiters.push({ sinceMs: clock.monotonicMs(), wanted, resolve, reject });
        });
        if (wanted > 0 && !verdict.allowed) refused++;
        return verdict;
      } catch (error) {
        uncounted++;
        throw error;
      } finally {
        waiting--;
      }
    }

    return {
      take({ uuid }, nowMs) {
        const refusal = refusalOf(nameOf(endpoint, uuid), nowMs);
        if (refusal === undefined) return ask(uuid, 1);
        refused++;
        return refusal;
      },
      peek: ({ uuid }, nowMs) => refusalOf(nameOf(endpoint, uuid), nowMs) ?? ask(uuid, 0),
      takeBack({ uuid }, verdict) {
        const { countedSecond, remaining } = verdict;
        if (countedSecond === undefined) return verdict;
        const name = nameOf(endpoint, uuid);
        full.delete(name);
        if (size < MAX_WAITING)
          joinLine(name, { keyUuid: uuid, endpoint, limit }).takenBack.push(countedSecond);
        return { ...verdict, allowed: true, remaining: remaining + 1, countedSecond: undefined };
      },
      stats: () => ({ refused, waiting, uncounted }),
    };
  };
}

function nameOf(endpoint: string, keyUuid: string): string {
  return `${endpoint}/${keyUuid}`;
}

function sumOf(waiters: readonly Waiter[]): number {
  return waiters.reduce((sum, { wanted }) => sum + wanted, 0);
}

/** Returns whole seconds from 1 to 61. */
function toRetryAfter(ms: number): number {
  return Math.min(61, Math.max(1, Math.ceil(ms / 1_000)));
}
