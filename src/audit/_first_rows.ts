/**
 * Selects the rows of a page of the audit log, in the order of their transactions.
 *
 * A page must not read a million rows because few rows meet its filter, or because the filter begins long ago. The
 * times of the log are almost in the order of transactions, but not exactly, so no index has both orders. Therefore a
 * page is merged from months: an index returns the first rows of each month that the filter includes. In the first and
 * last month alone, it also reads rows that the filter excludes.
 */
import type { Fragment, Sql } from "../database/mod.ts";
import { type AuditFilter, meets } from "./audit_filter.ts";

/** A longer list reads all rows, which then costs less. */
const MAX_PAGE = 1_000;

/** The month of a row, as the indexes have it. */
const MONTH = "date_trunc('month', at at time zone 'UTC')";

interface Page {
  readonly filter: AuditFilter;
  readonly limit: number;
  /** The condition that a row comes after the pages that were already read. */
  readonly isNext: Fragment;
  /** By default the oldest rows first. */
  readonly isNewestFirst?: boolean;
}

/** Returns the condition, as SQL, that a row of `audit` is on the page. */
export function isOnPage(sql: Sql, { filter, limit, isNext, isNewestFirst = false }: Page): Fragment {
  const { keyUuid, accountUuid, ...others } = filter;
  const isMet = sql`${isNext} and ${meets(sql, filter)}`;
  if (limit > MAX_PAGE) return isMet;
  const order = orderOf(sql, { isNewestFirst });
  const first = (condition: Fragment) => sql`
    select id, xid from audit where ${condition} and ${isMet} order by ${order} limit ${limit}::bigint`;
  // The UUID is a column of its own relation, so that the planner does not assume a UUID with many rows.
  const isOf = (column: Fragment, uuid: string) => sql`
    select row.* from (select ${uuid}::uuid as uuid) as thing
           cross join lateral (${first(sql`${column} = thing.uuid`)}) as row`;
  const rows =
    keyUuid !== undefined
      ? isOf(sql`key_id`, keyUuid)
      : accountUuid !== undefined
        ? isOf(sql`account_id`, accountUuid)
        : Object.values(others).every((value) => value === undefined)
          ? first(sql`true`)
          : sql`
            select row.* from (${selectMonths(sql, filter)}) as month
                   cross join lateral (${first(sql`${sql.unsafe(MONTH)} = month.begins_at`)}) as row`;
  // As an array, so that the planner looks up each row by its id.
  return sql`id = any(array(select id from (${rows}) as row order by ${order} limit ${limit}::bigint))`;
}

/** Returns the order of a page: that of the transactions, or the reverse. */
export function orderOf(sql: Sql, { isNewestFirst }: { readonly isNewestFirst: boolean }): Fragment {
  return isNewestFirst ? sql`xid desc nulls last, id desc` : sql`xid nulls first, id`;
}

/** Selects the months of the log that the filter includes: each step looks up the next month in the index. */
function selectMonths(sql: Sql, { since, until }: AuditFilter): Fragment {
  const month = sql.unsafe(MONTH);
  const monthOf = (at: Date) => sql`date_trunc('month', ${at}::timestamptz at time zone 'UTC')`;
  const next = (condition: Fragment) => sql`
    (select ${month} from audit where ${condition} order by ${month} limit 1)`;
  return sql`
    with recursive month (begins_at) as (
      ${next(since ? sql`${month} >= ${monthOf(since)}` : sql`true`)}
       union all
      select ${next(sql`${month} > month.begins_at`)} from month where begins_at is not null
    )
    select begins_at from month where ${until ? sql`begins_at <= ${monthOf(until)}` : sql`begins_at is not null`}`;
}
