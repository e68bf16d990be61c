/** Conditions of the list of keys that only the stored figures can answer. */
import { findStoredLists } from "../../figures/mod.ts";
import type { StoredListFilter } from "../../keys/mod.ts";
import { refuse } from "../../refusal.ts";
import type { AdminOptions } from "../frame/options.ts";

const NOT_COMPUTED = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot list keys by near_quota or unused_for: the figures are not computed yet; ask again in a minute",
);

interface StoredQuery {
  readonly near_quota?: number | undefined;
  readonly unused_for?: number | undefined;
}

/**
 * Finds the stored lists that the query names, with the time of the older one; undefined if the query has neither
 * parameter.
 */
export async function findStoredConditions(
  { near_quota, unused_for }: StoredQuery,
  { database, demandFigures }: Pick<AdminOptions, "database" | "demandFigures">,
) {
  if (near_quota === undefined && unused_for === undefined) return undefined;
  demandFigures();
  const stored = await findStoredLists(database);
  if (stored === undefined) return NOT_COMPUTED;
  const { nearQuota, unused } = stored;
  const times = [near_quota && nearQuota.asOf, unused_for && unused.asOf].filter((at) => at instanceof Date);
  const unusedKeys = unused.rows.find(({ days }) => days === unused_for)?.count ?? 0;
  return {
    filter: {
      nearQuotaPercent: near_quota,
      unusedForDays: unused_for,
      keys: near_quota === undefined ? unusedKeys : nearQuota.keys,
    } satisfies StoredListFilter,
    /** When the figures were counted. */
    asOf: new Date(Math.min(...times.map((at) => at.getTime()))),
  };
}
