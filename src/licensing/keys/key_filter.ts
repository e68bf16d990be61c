import { parseId } from "../../base/ids.ts";
import { type Rule, wholeNumber } from "../../base/rule.ts";
import type { Fragment, Sql } from "../../database/mod.ts";
import type { KeyMode, ListedState, ListPart, Restriction, Tier } from "../mod.ts";

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
  /** Keys whose license has this feature now, by its tier or beside it. */
  readonly feature?: string | undefined;
  /** The keys that were granted the feature; `splitByFeature` adds them. */
  readonly granted?: StoredList | undefined;
  /** Keys of these tiers; all tiers by default. */
  readonly ofTiers?: readonly Tier[] | undefined;
  /** Only keys that it allows. */
  readonly restriction?: Restriction | undefined;
  /** Keys whose license expires within this number of days, and that have not ended yet. */
  readonly expiringWithinDays?: number | undefined;
  /** Keys that are on all of these lists, which the room `figures` computes. */
  readonly stored?: readonly StoredList[] | undefined;
  /**
   * Only keys that are refused now and not revoked: suspended or expired ones, those on this list of keys whose quota is
   * used up, and those that were refused for too many requests in the last hour.
   */
  readonly refused?: StoredList | undefined;
  /** What sorts the list: the creation of the keys by default. Keys with the same value sort by their creation. */
  readonly by?: KeyOrder | undefined;
  /** Lists the newest keys, or the highest values, first; `afterUuid` then selects older keys, or lower values. */
  readonly newestFirst?: boolean | undefined;
  /** A position: the UUID of a key, with a sorted value before it, such as `1200.019ac0ab-…`. */
  readonly afterUuid?: string | undefined;
}

/** The end of the license or key, or a stored value, which only the first keys have. */
export type KeyOrder = "expiry" | StoredOrder;

/** The first keys by a value that is stored. */
export interface StoredOrder {
  /** Selects `key_id` and the value as `place`, a bigint. */
  readonly select: (sql: Sql) => Fragment;
}

/** The orders of a list, by their names. The last two are stored. */
export const KEY_SORTS = [
  "oldest",
  "newest",
  "soonest_expiry",
  "latest_expiry",
  "most_used",
  "latest_used",
] as const;
type KeySort = (typeof KEY_SORTS)[number];

/** Returns the order as a filter; that of a stored order comes from its stored list. */
export function toOrder(sort: KeySort): Pick<KeyFilter, "by" | "newestFirst"> {
  const newestFirst = sort !== "oldest" && sort !== "soonest_expiry";
  return { newestFirst, ...(sort.endsWith("expiry") && { by: "expiry" }) };
}

/** A value in a position: of an expiry in microseconds, PostgreSQL knows no earlier one than in 4714 BC. */
const VALUE = /(?:\d{1,18}|-\d{1,17})\./.source;
const POSITION = new RegExp(`^(${VALUE})?(key_.*)$`);

/** A position in a list of keys: the id of a key, with the value that sorts the list before it. */
export const KEY_POSITION: Rule<string> = {
  expects: "the id of a key, or the position of a page",
  keywords: { type: "string" },
  parse(text) {
    const [, value = "", id = ""] = POSITION.exec(text) ?? [];
    const uuid = parseId("key", id);
    return uuid && value + uuid;
  },
};

/** The form of a position in a cursor. */
export const CURSOR_POSITION = new RegExp(`^(?:${VALUE})?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`);

/** Returns the position of a key in its list, with its id or its UUID. */
export function positionOf({ sortedBy }: { readonly sortedBy: string | null }, id: string): string {
  return sortedBy === null ? id : `${sortedBy}.${id}`;
}

/** A list of keys that is stored: it costs little where the condition itself would read every key. */
export interface StoredList {
  /** About how many keys it has. */
  readonly keys: number;
  /** Selects `key_id`, once for each key of the list. */
  readonly select: (sql: Sql) => Fragment;
}
