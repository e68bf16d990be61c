/**
 * The rate windows of keys that all processes of a database share: never more than the limit in any 60 s, whatever the
 * number of processes, by the clock of the database.
 *
 * One statement counts and answers all requests that wait; the next is sent when it returns or misses its deadline. So an
 * idle service answers at once, and a busy one asks for many keys together. A key whose window is known to be full is
 * refused without a statement until the second that the statement named.
 *
 * Requests that are counted together, all or none, wait in a line of their own. A statement has one line of a window, so the
 * next statement takes them.
 *
 * A request whose statement has an unknown outcome is not admitted, and may stay counted for a minute. The same is true
 * for a request that should be taken back.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import type { KeyWindows, LimitOf, Sender, Verdict } from "../../base/rate_limits/mod.ts";
import { type Database, DatabaseUnavailable } from "../../database/mod.ts";
import { type Counted, countBatch, type WindowRequests } from "./count_batch.ts";

/** The most requests that wait at one endpoint, and the most windows that wait. */
const MAX_WAITING = 20_000;
const MAX_WINDOWS_IN_BATCH = 1_000;
/** Requests that have waited this long are turned away, because their statement would take more time after that. */
const MAX_WAIT_MS = 1_000;
const DEADLINE_MS = 1_000;
const MAX_FULL = 100_000;

type Window = Pick<WindowRequests, "keyUuid" | "endpoint" | "limit">;

/** The requests of one key at one endpoint that wait together. */
interface Line extends WindowRequests {
  readonly sinceMs: number;
  readonly counted: PromiseWithResolvers<Counted>;
}

/**
 * Returns a function that makes the windows of an endpoint. `limitOf` returns how many requests a key may send in any 60 s, 1
 * or more. The windows of all endpoints wait together.
 *
 * One long function, because its closures share the lines and what is known of full windows.
 */
export function createSharedWindows(database: Database, clock: Clock) {
  const lines = new Map<string, Line>();
  /** The full windows, each with the monotonic time at which its statement returned. */
  const full = new LRUCache<string, Counted & { readonly limit: number; readonly answeredMs: number }>({
    max: MAX_FULL,
  });
  let isRunning = false;
  let linesOfMany = 0;

  /**
   * Returns the line of a window, whose statement is sent when the statement before has returned. A line that waits keeps its
   * limit: if the limit of the key has just changed, the requests of the next line get the new one.
   */
  function lineOf(window: Window, { whole }: { readonly whole?: number } = {}): Line {
    const name = whole === undefined ? nameOf(window) : `${nameOf(window)} ${++linesOfMany}`;
    const known = lines.get(name);
    if (known !== undefined) return known;
    const line = {
      ...window,
      wanted: whole ?? 0,
      isWhole: whole !== undefined,
      takenBack: [],
      sinceMs: clock.monotonicMs(),
      counted: Promise.withResolvers<Counted>(),
    };
    // Nobody waits for a line that only takes requests back.
    line.counted.promise.catch(() => {});
    lines.set(name, line);
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
    const windows = new Set<string>();
    const nowMs = clock.monotonicMs();
    for (const [name, line] of lines) {
      const window = nameOf(line);
      if (windows.has(window)) continue;
      windows.add(window);
      lines.delete(name);
      if (nowMs - line.sinceMs < MAX_WAIT_MS) taken.push(line);
      else line.counted.reject(new DatabaseUnavailable("waited too long to be counted"));
      if (taken.length === MAX_WINDOWS_IN_BATCH) break;
    }
    return taken;
  }

  async function send(batch: readonly Line[]) {
    if (batch.length === 0) return;
    const asked = batch.map(({ counted, sinceMs, ...requests }) => requests);
    try {
      const windows = await countBatch(database, asked, DEADLINE_MS);
      const answeredMs = clock.monotonicMs();
      const byName = new Map(windows.map((window) => [nameOf(window), window]));
      for (const line of batch) {
        const name = nameOf(line);
        const window = byName.get(name);
        if (window === undefined) throw new Error("The statement returns each window");
        if (window.roomSecond === null) full.delete(name);
        else full.set(name, { ...window, limit: line.limit, answeredMs });
        line.counted.resolve(window);
      }
    } catch (error) {
      for (const { counted } of batch) counted.reject(error);
    }
  }

  return (endpoint: string, limitOf: LimitOf): KeyWindows => {
    let refused = 0;
    let waiting = 0;

    /** Returns the refusal of a window that is known to be full, with this limit. */
    function refusalOf(sender: Sender, nowMs: number): Verdict | undefined {
      const known = full.get(nameOf({ endpoint, keyUuid: sender.uuid }));
      if (known === undefined || known.limit !== limitOf(sender)) return undefined;
      const now = { ...known, nowMs: known.nowMs + nowMs - known.answeredMs };
      return now.nowMs < toMs(known.roomSecond ?? 0) ? toRefusal(now, known.limit) : undefined;
    }

    async function ask(sender: Sender, wanted: 0 | 1): Promise<Verdict> {
      if (waiting >= MAX_WAITING) throw new DatabaseUnavailable("too many requests wait to be counted");
      const line = lineOf({ keyUuid: sender.uuid, endpoint, limit: limitOf(sender) });
      const { limit } = line;
      line.wanted += wanted;
      const place = line.wanted;
      waiting++;
      const window = await line.counted.promise.finally(() => waiting--);
      // The first of the granted requests sees more room than the last.
      const remaining = limit - window.total + Math.max(0, window.granted - place);
      const isCounted = wanted > 0 && place <= window.granted;
      if (isCounted || (wanted === 0 && remaining > 0)) {
        const countedSecond = isCounted ? window.second : undefined;
        return { ...toRefusal(window, limit), allowed: true, remaining, retryAfterSeconds: 0, countedSecond };
      }
      refused += wanted;
      return toRefusal(window, limit);
    }

    async function askMany(sender: Sender, units: number): Promise<Verdict> {
      if (waiting >= MAX_WAITING) throw new DatabaseUnavailable("too many requests wait to be counted");
      const window = { keyUuid: sender.uuid, endpoint, limit: limitOf(sender) };
      const line = lineOf(window, { whole: units });
      waiting++;
      const counted = await line.counted.promise.finally(() => waiting--);
      const { granted, second, total, lastSecond, nowMs } = counted;
      const verdict = toRefusal(counted, window.limit);
      if (granted === units) {
        const remaining = window.limit - total;
        return { ...verdict, allowed: true, remaining, retryAfterSeconds: 0, countedSecond: second, units };
      }
      refused++;
      // The statement does not say when there is room for so many: at the latest when all others have left the window.
      const emptyMs = lastSecond === null ? 1_000 : toMs(lastSecond + 61) - nowMs;
      return {
        ...verdict,
        remaining: Math.max(0, window.limit - total),
        retryAfterSeconds: Math.min(61, Math.max(1, Math.ceil(emptyMs / 1_000))),
      };
    }

    return {
      takeMany(sender, _nowMs, units) {
        return askMany(sender, units);
      },
      take(sender, nowMs) {
        const refusal = refusalOf(sender, nowMs);
        if (refusal === undefined) return ask(sender, 1);
        refused++;
        return refusal;
      },
      peek: (sender, nowMs) => refusalOf(sender, nowMs) ?? ask(sender, 0),
      takeBack({ uuid }, verdict) {
        const { countedSecond, remaining, limit, units = 1 } = verdict;
        if (countedSecond === undefined) return verdict;
        const window = { keyUuid: uuid, endpoint, limit };
        full.delete(nameOf(window));
        if (lines.size < MAX_WAITING) lineOf(window).takenBack.push(...Array(units).fill(countedSecond));
        return { ...verdict, allowed: true, remaining: remaining + units, countedSecond: undefined };
      },
      stats: () => ({ refused, waiting }),
    };
  };
}

function nameOf({ endpoint, keyUuid }: Pick<Line, "endpoint" | "keyUuid">): string {
  return `${endpoint}/${keyUuid}`;
}

function toRefusal({ second, lastSecond, roomSecond, nowMs }: Counted, limit: number): Verdict {
  const waitSeconds = Math.ceil((toMs(roomSecond ?? second) - nowMs) / 1_000);
  return {
    allowed: false,
    limit,
    remaining: 0,
    retryAfterSeconds: Math.min(61, Math.max(1, waitSeconds)),
    countedSecond: undefined,
    resetAfterMs: lastSecond === null ? 0 : toMs(lastSecond + 61) - nowMs,
  };
}

const toMs = (seconds: number) => seconds * 1_000;
