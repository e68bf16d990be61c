import type { Fragment, Sql } from "../database/mod.ts";
import type { KeyMode, ListedState, ListPart, Restriction, Tier } from "../licensing/mod.ts";
import { wholeNumber } from "../rule.ts";

/** The rule for the days of a condition: at most a hundred years. */
export const DAYS_OF_FILTER = wholeNumber(0, 36_500);

/** The conditions of a list: it contains the keys that meet all given conditions. */
export interface KeyFilter extends ListPart {
  /** Only these keys; then no other condition counts but the restriction. */
  readonly uuids?: readonly string[] | undefined;
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
  /** Keys that are on all of these lists, which the room `figures` computes. */
  readonly stored?: readonly StoredList[] | undefined;
  /**
   * Only keys that are refused now and not revoked: suspended or expired ones, those on this list of keys whose quota is
   * used up, and those that were refused for too many requests in the last hour.
   */
  readonly refused?: StoredList | undefined;
  /** Lists the newest keys first; `afterUuid` then selects older keys. By default the oldest keys come first. */
  readonly newestFirst?: boolean | undefined;
}

/** A list of keys that is stored: it costs little where the condition itself would read every key. */
export interface StoredList {
  /** About how many keys it has. */
  readonly keys: number;
  /** Selects `key_id`, once for each key of the list. */
  readonly select: (sql: Sql) => Fragment;
}

/** Returns how the ids of keys are sorted, as SQL. UUIDs sort by the time of their creation. */
export function directionOf(sql: Sql, { newestFirst }: KeyFilter): Fragment {
  return newestFirst ? sql`desc` : sql`asc`;
}
