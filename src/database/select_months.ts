import type { Fragment, Sql } from "./sql.ts";

interface Months {
  readonly table: Fragment;
  /** The first day of the month of a row, as an index has it. */
  readonly month: Fragment;
  /** By default all months. */
  readonly from?: Date | undefined;
  readonly until?: Date | undefined;
}

/** Selects the months that rows have as `begins_at`, in UTC: each step looks up the next month in the index. */
export function selectMonths(sql: Sql, { table, month, from, until }: Months): Fragment {
  const monthOf = (at: Date) => sql`date_trunc('month', ${at}::timestamptz at time zone 'UTC')`;
  const next = (condition: Fragment) =>
    sql`(select ${month} from ${table} where ${condition} order by ${month} limit 1)`;
  return sql`
    with recursive month (begins_at) as (
      ${next(from ? sql`${month} >= ${monthOf(from)}` : sql`true`)}
       union all
      select ${next(sql`${month} > month.begins_at`)} from month where begins_at is not null
    )
    select begins_at from month where ${until ? sql`begins_at <= ${monthOf(until)}` : sql`begins_at is not null`}`;
}
