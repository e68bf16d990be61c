import type { Fragment, Sql } from "../database/mod.ts";
import type { KeyMode, ListedState, ListPart, Restriction, Tier } from "../licensing/mod.ts";
import { wholeNumber } from "../rule.ts";

/** The rule for the days of a condition: at most a hundred years. */
export const DAYS_OF_FILTER = wholeNumber(0, 36_500);

/** The conditions of a list: it contains the keys that meet all given conditions. */
export interface KeyFilter extends ListPart {
  readonly accountUuid?: string | undefined;
  readonly externalId?: string | undefined;
  readonly tier?: Tier | undefined;
  readonly state?: ListedState | undefined;
  readonly mode?: KeyMode | undefined;
  /** Only keys that it allows. */
  readonly restriction?: Restriction | undefined;
  /** Keys that expire within this number of days and have not expired yet. */
  readonly expiringWithinDays?: number | undefined;
  /** Keys that were neither used nor issued within this number of days. */
  readonly unusedForDays?: number | undefined;
  /** Keys whose license has used at least this percentage of its month's limit. */
  readonly nearQuotaPercent?: number | undefined;
  /** Keys of the stored lists that the room `figures` computes. */
  readonly figures?: StoredListFilter | undefined;
  /** Lists the newest keys first; `afterUuid` then selects older keys. By default the oldest keys come first. */
  readonly newestFirst?: boolean | undefined;
}

/**
 * The conditions that a list of stored keys meets: it costs little where `unusedForDays` and `nearQuotaPercent` read
 * every key.
 */
export interface StoredListFilter {
  /** One of the days of the stored list. */
  readonly unusedForDays?: number | undefined;
  /** At least the percentage of the stored list. */
  readonly nearQuotaPercent?: number | undefined;
  /** How many keys the stored list has: that of `nearQuotaPercent` if both are given. */
  readonly keys: number;
}

/** Returns how the ids of keys are sorted, as SQL. UUIDs sort by the time of their creation. */
export function directionOf(sql: Sql, { newestFirst }: KeyFilter): Fragment {
  return newestFirst ? sql`desc` : sql`asc`;
}
