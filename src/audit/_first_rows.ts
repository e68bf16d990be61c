/**
 * Selects the rows of a page of the audit log, in the order of their transactions.
 *
 * A page must not read a million rows because few rows meet its filter, or because the filter begins long ago. The
 * times of the log are almost in the order of transactions, but not exactly, so no index has both orders. Therefore a
 * page is merged from months: an index returns the first rows of each month that the filter includes. In the first and
 * last month alone, it also reads rows that the filter excludes.
 */
import { type Fragment, type Sql, selectMonths } from "../database/mod.ts";
import { type AuditFilter, meets } from "./audit_filter.ts";

/** A longer list reads all rows, which then costs less. */
const MAX_PAGE = 1_000;

interface Page {
  readonly filter: AuditFilter;
  readonly limit: number;
  /** The condition that a row comes after the pages that were already read. */
  readonly isNext: Fragment;
  /** By default the oldest rows first. */
  readonly isNewestFirst?: boolean | undefined;
}

/** Returns the condition, as SQL, that a row of `audit` is on the page. */
export function isOnPage(sql: Sql, { limit, isNewestFirst = false, ...page }: Page): Fragment {
  if (limit > MAX_PAGE) return sql`${page.isNext} and ${meets(sql, page.filter)}`;
  const last = sql`order by ${orderOf(sql, { isNewestFirst })} limit ${limit}::bigint`;
  // As an array, so that the planner looks up each row by its id.
  return sql`id = any(array(select id from (${selectParts(sql, page, last)}) as row ${last}))`;
}

/** Selects the rows that meet the filter: `last` is the end of the statement of each part, such as order and limit. */
export function selectParts(
  sql: Sql,
  { filter, isNext }: Pick<Page, "filter" | "isNext">,
  last: Fragment,
): Fragment {
  const { keyUuid, accountUuid, licenseUuid, ...others } = filter;
  const first = (condition: Fragment) => sql`
    select id, xid from audit where ${condition} and ${isNext} and ${meets(sql, filter)} ${last}`;
  // The UUIDs are a column of their own relation, so that the planner does not assume a UUID with many rows.
  const isOf = (column: Fragment, uuids: Fragment) => sql`
    select row.* from (${uuids}) as thing (uuid)
           cross join lateral (${first(sql`${column} = thing.uuid`)}) as row`;
  if (keyUuid !== undefined) return isOf(sql`key_id`, sql`select ${keyUuid}::uuid`);
  if (accountUuid !== undefined) return isOf(sql`account_id`, sql`select ${accountUuid}::uuid`);
  if (licenseUuid !== undefined)
    return isOf(sql`key_id`, sql`select id from keys where license_id = ${licenseUuid}::uuid`);
  if (Object.values(others).every((value) => value === undefined)) return first(sql`true`);
  const month = sql`date_trunc('month', at at time zone 'UTC')`;
  return sql`
    select row.* from (${selectMonths(sql, { table: sql`audit`, month, from: filter.since, until: filter.until })}) as month
           cross join lateral (${first(sql`${month} = month.begins_at`)}) as row`;
}

/** Returns the order of a page: that of the transactions, or the reverse. */
export function orderOf(sql: Sql, { isNewestFirst }: { readonly isNewestFirst: boolean }): Fragment {
  return isNewestFirst ? sql`xid desc nulls last, id desc` : sql`xid nulls first, id`;
}
