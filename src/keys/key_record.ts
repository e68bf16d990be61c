/**
 * A key with all that an answer needs to know of it, its license and its account, and nothing else: there are
 * many of them, and what they take up is waited for.
 *
 * What a request changes or reads lies on the record itself, also where somebody else makes it: its window,
 * whether its use is noted, and its answer as it was rendered last. With many thousand keys in turn, each
 * table of such things beside it would cost more in waits for memory than the rest of the answer.
 */
import type { Month } from "../calendar.ts";
import type { Tier } from "../licensing/mod.ts";
import type { Sender } from "../limits/mod.ts";
import type { KeyHash } from "./key_hash.ts";

export type KeyState = "active" | "suspended" | "revoked";

export interface KeyRecord extends KeyHash, Sender {
  readonly uuid: string;
  readonly licenseUuid: string;
  readonly accountUuid: string;
  readonly state: KeyState;
  readonly tier: Tier;
  /** Inferences a month in force; null is unlimited. */
  readonly monthlyLimit: number | null;
  /** When it stops working: the license's expiry, or the key's own where that is earlier. */
  readonly expiresAtMs: number;
  /** The newest count known here; see {@linkcode usedIn}. */
  usage: UsageCount;
  /** When the cache put it at the end of its list, by the monotonic clock; see `key_cache.ts`. */
  movedAtMs: number;
  /** Whether its use waits to be written down; see `last_use.ts`. */
  isUseNoted: boolean;
  /** What the answer of validate shows of the account: given up when it holds it. */
  account: AccountNames | undefined;
  /** The answer of validate as it was rendered last, empty before; see `http/license_answer.ts`. */
  answer: string;
  /** What it was made from: a count is replaced when it changes, and so is the month. */
  answeredUsage: UsageCount | undefined;
  answeredMonth: Month | undefined;
  /** Where the quota begins in it. */
  quotaAt: number;
  /** Whether it says that nothing is left of the month's allowance. */
  isUsedUp: boolean;
}

export interface AccountNames {
  readonly email: string;
  readonly name: string;
  readonly organization: string;
}

/** How much of a month is used. */
export interface UsageCount {
  readonly monthIndex: number;
  readonly used: number;
}

/** The units used in a month: nothing is known of a later month than the count's, so nothing is used. */
export function usedIn(record: KeyRecord, monthIndex: number): number {
  return record.usage.monthIndex === monthIndex ? record.usage.used : 0;
}

/** True for a count that was reached after another: within a month counts only grow. */
export function isNewer(count: UsageCount, than: UsageCount): boolean {
  return (
    count.monthIndex > than.monthIndex || (count.monthIndex === than.monthIndex && count.used > than.used)
  );
}

/** Takes in a count unless a newer one is known. */
export function noteUsage(record: KeyRecord, count: UsageCount): void {
  if (isNewer(count, record.usage)) record.usage = count;
}
