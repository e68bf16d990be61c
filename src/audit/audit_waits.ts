/**
 * Lets readers of the audit log wait for rows. A reader that waits costs no connection and no statement: one statement a
 * second in this process asks for all of them, and only while somebody waits.
 */
import { repeat } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import { redactKeys } from "../base/secrets/mod.ts";
import { type Database, DatabaseUnavailable } from "../database/mod.ts";
import type { AuditFilter } from "./audit_filter.ts";
import { type AuditWait, findAuditNews } from "./follow_audit.ts";

const POLL_MS = 1_000;

/** The most readers that wait in one process. */
export const MOST_WAITING = 200;
/** One sender cannot take all places. */
const MOST_OF_SENDER = 50;

interface WaitOptions {
  readonly filter: AuditFilter;
  /** The position of the end of the log, as the reader has read it. */
  readonly after: string;
  /** The longest that the reader waits. */
  readonly waitMs: number;
  /** Who waits, such as the UUID of a token. */
  readonly sender: string;
  /** Ends the wait when the reader is gone. */
  readonly signal: AbortSignal;
}

interface Waiter extends AuditWait {
  readonly sender: string;
  after: string;
  end(hasNews: boolean): void;
}

export type AuditWaits = ReturnType<typeof createAuditWaits>;

interface WaitsOptions {
  readonly database: Database;
  readonly log: Log;
  readonly pollMs?: number;
}

/** Creates the place where readers wait. */
export function createAuditWaits({ database, log, pollMs = POLL_MS }: WaitsOptions) {
  const waiting = new Set<Waiter>();
  let polls: ReturnType<typeof repeat> | undefined;
  let isEnded = false;
  /** The reasons that were logged since the statement last succeeded: it is repeated each second. */
  const reasons = new Set<string>();

  async function poll(): Promise<number | undefined> {
    const asking = [...waiting];
    if (asking.length === 0) {
      polls = undefined;
      return undefined;
    }
    try {
      const news = await findAuditNews(database, asking);
      for (const [index, waiter] of asking.entries()) {
        if (news.areThere[index]) waiter.end(true);
        else waiter.after = news.position;
      }
    } catch (error) {
      // The readers go on waiting, and learn from their own statement at the end that the database does not answer.
      if (error instanceof DatabaseUnavailable) return pollMs;
      const reason = redactKeys(String(error));
      if (!reasons.has(reason)) log.error("Cannot look for rows of the audit log", { reason });
      reasons.add(reason);
      return pollMs;
    }
    reasons.clear();
    return pollMs;
  }

  return {
    /**
     * Waits until there is a row after the position that meets the filter: resolves with true. Resolves with false when
     * the time is over, the reader is gone or the waits end, and at once if too many wait already.
     */
    wait({ filter, after, waitMs, sender, signal }: WaitOptions): Promise<boolean> {
      const own = waiting.values().filter((waiter) => waiter.sender === sender);
      const isFull = waiting.size >= MOST_WAITING || [...own].length >= MOST_OF_SENDER;
      if (isEnded || isFull || signal.aborted) return Promise.resolve(false);
      return new Promise((resolve) => {
        const stop = () => waiter.end(false);
        const timer = setTimeout(stop, waitMs);
        signal.addEventListener("abort", stop);
        const waiter: Waiter = {
          filter,
          after,
          sender,
          end(hasNews) {
            clearTimeout(timer);
            signal.removeEventListener("abort", stop);
            waiting.delete(waiter);
            resolve(hasNews);
          },
        };
        waiting.add(waiter);
        polls ??= repeat(pollMs, poll);
      });
    },
    /** The number of readers that wait. */
    count: () => waiting.size,
    /** Ends all waits, and each later one at once. */
    end(): void {
      isEnded = true;
      polls?.stop();
      for (const waiter of waiting) waiter.end(false);
    },
  };
}
