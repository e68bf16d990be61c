/**
 * The conditions of the list of keys, for every door. Those that only the stored figures can answer have their SQL
 * here; `licensing/keys/` has that of the others.
 */
import { DAY_MS, toDay } from "../../base/calendar.ts";
import { type Condition, type ConditionValues, condition, YES } from "../../base/condition.ts";
import { type Rule, wholeNumber } from "../../base/rule.ts";
import type { Fragment, Sql } from "../../database/mod.ts";
import { DAYS_OF_FILTER, KEY_SORTS, type KeyFilter, toOrder } from "../../licensing/keys/mod.ts";
import {
  ACCOUNT_CONDITION,
  FEATURE_CONDITION,
  LISTED_STATES,
  MODES,
  TEXT_RULES,
  TIERS,
} from "../../licensing/mod.ts";
import { MOST_SORTED } from "./_figure_statements.ts";
import { type FigureName, MOST_DAYS_LEFT, NEAR_QUOTA_PERCENT, UNUSED_DAYS } from "./figures.ts";

/** A stored list of keys. */
export interface StoredCondition {
  /** The figure that tells the length of the list. */
  readonly figure: FigureName;
  /** Selects `key_id` for each key of the list. */
  readonly select: (sql: Sql, value: number, now: Date) => Fragment;
}

const PERCENT = wholeNumber(NEAR_QUOTA_PERCENT, 100);
const NEAR_QUOTA: Rule<number> = {
  ...PERCENT,
  expects:
    `${PERCENT.expects}: the stored figures have only the licenses that used at least ` +
    `${NEAR_QUOTA_PERCENT} % of their quota`,
};

const UNUSED_FOR: Rule<(typeof UNUSED_DAYS)[number]> = {
  expects: `one of ${UNUSED_DAYS.join(", ")}: the stored figures have only these days`,
  keywords: { type: "integer", enum: UNUSED_DAYS },
  parse: (text) => UNUSED_DAYS.find((days) => text === `${days}`),
};

function stored<Of extends Condition>(of: Of, list: StoredCondition) {
  return { ...of, ...list };
}

/** The conditions by their names. A search for accounts comes on top of them. */
export const KEY_CONDITIONS = {
  account: ACCOUNT_CONDITION,
  external_id: condition(
    "only keys of the license with this external id, compared as bytes",
    TEXT_RULES.external_id,
    {
      as: "id",
    },
  ),
  tier: condition("only keys of this tier", TIERS),
  state: condition("only keys in this state", LISTED_STATES),
  mode: condition("only keys of this mode", MODES),
  feature: FEATURE_CONDITION,
  sort: condition(
    `the order; most_used and latest_used are those of the stored figures, with the first ${MOST_SORTED} keys alone`,
    KEY_SORTS,
  ),
  expiring_within: condition(
    "only keys whose license expires within this many days after the first page",
    DAYS_OF_FILTER,
    {
      as: "days",
    },
  ),
  unused_for: stored(
    condition(
      "only keys that were neither used nor issued for this many days " +
        `(${UNUSED_DAYS.join(", ")}), by the stored figures`,
      UNUSED_FOR,
      { as: "days" },
    ),
    {
      figure: "unused",
      select: (sql, days) => sql`select key_id from figure_unused where days >= ${days}::smallint`,
    },
  ),
  near_quota: stored(
    condition(
      "only keys whose license used at least this percentage of its monthly limit " +
        `(${NEAR_QUOTA_PERCENT} to 100), by the stored figures`,
      NEAR_QUOTA,
      { as: "percent" },
    ),
    {
      figure: "near_quota",
      select: (sql, percent) =>
        sql`select key_id from figure_near_quota where percent >= ${percent}::integer`,
    },
  ),
  runs_out_within: stored(
    condition(
      "only keys whose quota is used up, or will be within this many days and before it resets, by the stored figures and " +
        "the mean of the last seven whole days; without revoked keys and expired licenses",
      wholeNumber(0, MOST_DAYS_LEFT),
      { as: "days" },
    ),
    {
      figure: "runs_out",
      select: (sql, days, now) => sql`
        select key_id from figure_runs_out
         where not isfinite(day)
            or day between ${toDay(now)}::date and ${toDay(new Date(now.getTime() + days * DAY_MS))}::date`,
    },
  ),
  refused_now: stored(
    condition(
      "only keys that are refused now and not revoked: suspended, expired, quota used up by the stored figures, or too " +
        "many requests in the last hour",
      YES,
    ),
    // The keys whose quota is used up; `listKeys` adds those that are refused for other reasons.
    { figure: "near_quota", select: (sql) => sql`select key_id from figure_near_quota where percent >= 100` },
  ),
  all_places_taken: stored(
    condition("only keys without a free place for a machine, by the stored figures", YES),
    { figure: "machines", select: (sql) => sql`select key_id from figure_full` },
  ),
} as const;

export type KeyConditions = ConditionValues<typeof KEY_CONDITIONS>;

/** The stored orders of the list, by their names: the first keys by a stored value, and the value as `place`. */
export const STORED_ORDERS = {
  most_used: {
    figure: "most_used",
    select: (sql) => sql`select key_id, used as place from figure_most_used`,
  },
  latest_used: {
    figure: "latest_used",
    select: (sql) => sql`
      select key_id, extract(epoch from last_used_at)::bigint as place from figure_latest_used`,
  },
} as const satisfies Readonly<Record<string, StoredCondition>>;

/**
 * Returns the conditions as a filter, without those that need a look-up: `account`, and those of the stored figures.
 */
export function toKeyFilter({ sort = "oldest", ...conditions }: KeyConditions): KeyFilter {
  const {
    tier,
    state,
    mode,
    feature,
    external_id: externalId,
    expiring_within: expiringWithinDays,
  } = conditions;
  return { tier, state, mode, feature, externalId, expiringWithinDays, ...toOrder(sort) };
}
