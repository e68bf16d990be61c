/**
 * The record of a key: the data of the key, its license and its account that an answer needs, and no other data. There
 * are many records, and each byte costs cache misses on every request.
 *
 * A record also has the fields of other owners for this key: its window, the mark of its use, and its rendered answer.
 * When requests use many thousand keys in turn, a separate table for each of these would cost more cache misses
 * than the rest of the answer. So at run time a record is one flat object; its type has one interface per owner.
 */
import type { Month } from "../../base/calendar.ts";
import type { Sender } from "../../base/rate_limits/mod.ts";
import type { Account, KeyState, Tier } from "../mod.ts";
import type { KeyHash } from "./key_hash.ts";

export interface KeyRecord extends KeyData, CacheMark, UseMark, RenderedAnswer, Required<Sender> {}

/** The data from the database; `find_keys.ts` reads it. */
interface KeyData extends KeyHash {
  readonly uuid: string;
  readonly licenseUuid: string;
  readonly accountUuid: string;
  /** `unstarted`: the key is active, and the term of its license begins with its first accepted request. */
  readonly state: KeyState | "unstarted";
  readonly tier: Tier;
  /** The effective limit of inferences a month; null means unlimited. */
  readonly monthlyLimit: number | null;
  /** When the key stops working: the expiry of the license, or the key's own expiry if that is earlier. */
  readonly expiresAtMs: number;
  /** Versions of models that were registered later are not for the license; infinite if all are. */
  readonly updatesUntilMs: number;
  /** The features as JSON. Keys of one tier share the text, unless their licenses have features beside it. */
  readonly features: string;
  /** The values as JSON, which the keys of a license share; empty if there are none. */
  entitlements: string;
  /** Whether the models of its own account are for the license; undefined: that depends on its tier. */
  readonly hasCustomModels: boolean | undefined;
  /** When its features change by the clock alone, so that the record must be read again; infinite if never. */
  readonly featuresChangeAtMs: number;
  /** The newest count known here; see {@linkcode usedIn}. */
  usage: UsageCount;
}

/** Owned by `key_cache.ts`. */
interface CacheMark {
  /** When the cache moved the key to the end of its list, by the monotonic clock. */
  movedAtMs: number;
}

/** Owned by `last_use.ts`. */
interface UseMark {
  /** Whether the key's use is marked and not yet written. */
  isUseNoted: boolean;
}

/** Owned by `clients/license_answer.ts`: the last rendered answer of validate. */
interface RenderedAnswer {
  /** The account's texts for the answer; undefined after the first rendering, because `answer` contains them. */
  account: AccountNames | undefined;
  /** Empty before the first rendering. */
  answer: string;
  /** The values in the answer, compared by reference: a changed count is a new object, and so is a new month. */
  answeredUsage: UsageCount | undefined;
  answeredMonth: Month | undefined;
  /** The index in `answer` at which the quota begins. */
  quotaAt: number;
}

export type AccountNames = Pick<Account, "email" | "name" | "organization">;

/** The units that a license has used in a month. */
export interface UsageCount {
  readonly monthIndex: number;
  readonly used: number;
}

/** Returns the units used in a month; 0 for another month than the count's: in a later month no use is known. */
export function usedIn(record: Pick<KeyData, "usage">, monthIndex: number): number {
  return record.usage.monthIndex === monthIndex ? record.usage.used : 0;
}

/** Tells whether a count is newer than another one: within a month, counts only grow. */
export function isNewer(count: UsageCount, than: UsageCount): boolean {
  return (
    count.monthIndex > than.monthIndex || (count.monthIndex === than.monthIndex && count.used > than.used)
  );
}

/** Sets the count of a record, unless the record has a newer or equal one. */
export function updateUsedCount(record: Pick<KeyData, "usage">, count: UsageCount): void {
  if (isNewer(count, record.usage)) record.usage = count;
}
