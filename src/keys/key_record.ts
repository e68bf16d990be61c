/**
 * A key with all that an answer needs to know of it, its license and its account, and nothing else: there are many
 * records, and each byte costs cache misses on every request.
 *
 * A record also carries what others keep for each key: its window, whether its use is noted, and its rendered
 * answer. With many thousand keys in turn, a table of its own for each of these would cost more in waits for memory
 * than the rest of the answer. So at run time a record is one flat object; its type has one interface per owner.
 */
import type { Month } from "../calendar.ts";
import type { Tier } from "../licensing/mod.ts";
import type { Sender } from "../limits/mod.ts";
import type { KeyHash } from "./key_hash.ts";

export type KeyState = "active" | "suspended" | "revoked";

export interface KeyRecord extends KeyData, CacheMark, UseMark, RenderedAnswer, Sender {}

/** What the database says of the key; `find_keys.ts` reads it. */
interface KeyData extends KeyHash {
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
}

/** Owned by `key_cache.ts`. */
interface CacheMark {
  /** When the cache put the key at the end of its list, by the monotonic clock. */
  movedAtMs: number;
}

/** Owned by `last_use.ts`. */
interface UseMark {
  /** Whether the key's use waits to be written down. */
  isUseNoted: boolean;
}

/** Owned by `http/license_answer.ts`: the answer of validate as it was rendered last. */
interface RenderedAnswer {
  /** What the answer shows of the account: given up when the answer holds it. */
  account: AccountNames | undefined;
  /** Empty before the first rendering. */
  answer: string;
  /** What the answer was made from: a count is replaced when it changes, and so is the month. */
  answeredUsage: UsageCount | undefined;
  answeredMonth: Month | undefined;
  /** Where the quota begins in the answer. */
  quotaAt: number;
  /** Whether the answer says that nothing is left of the month's allowance. */
  isUsedUp: boolean;
}

interface AccountNames {
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
export function usedIn(record: Pick<KeyData, "usage">, monthIndex: number): number {
  return record.usage.monthIndex === monthIndex ? record.usage.used : 0;
}

/** True for a count that was reached after another: within a month counts only grow. */
export function isNewer(count: UsageCount, than: UsageCount): boolean {
  return (
    count.monthIndex > than.monthIndex || (count.monthIndex === than.monthIndex && count.used > than.used)
  );
}

/** Takes in a count unless a newer one is known. */
export function updateUsedCount(record: Pick<KeyData, "usage">, count: UsageCount): void {
  if (isNewer(count, record.usage)) record.usage = count;
}
