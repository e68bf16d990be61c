/** Reports use: of a license by day, of an account by month, and of all licenses in a month, for accounting. */
import { daysOf, type Month, toMonth, toMonthText } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import {
  countRows,
  type Database,
  type Fragment,
  MOST_COUNTED,
  readPages,
  type Sql,
  toTextArray,
} from "../database/mod.ts";
import { monthlyLimitOf, type Search, type Tier } from "../licensing/mod.ts";

interface DayOfUse {
  /** `2026-11-20`. */
  readonly day: string;
  readonly used: number;
}

export interface UsageByDay {
  /** All units that the month's quota counts: those of the days and of the import. */
  readonly used: number;
  /** The units that were imported with a key in this month. Their days are unknown. */
  readonly imported: number;
  /** The units that reports had beyond the limit: the quota does not count them. */
  readonly over: number;
  /** Every day of the month, including days without use. */
  readonly days: readonly DayOfUse[];
}

/** Returns the units that a license used in a month, by day. */
export async function findUsageByDay(
  database: Database,
  licenseUuid: string,
  month: Month,
): Promise<UsageByDay> {
  const [row] = await database.query<{ used: number; over: number; byDay: readonly number[] }>(
    (sql) => sql`
      select used, over, to_json(by_day) as "byDay" from usage
       where license_id = ${licenseUuid}::uuid and month = ${month.firstDay}::date`,
  );
  const { used = 0, over = 0, byDay = [] } = row ?? {};
  const days = daysOf(month).map((day, index) => ({ day, used: byDay[index] ?? 0 }));
  return { used, imported: days.reduce((rest, day) => rest - day.used, used), over, days };
}

export interface UseOfMonth {
  /** `2026-11`. */
  readonly month: string;
  readonly used: number;
  /** The units that reports had beyond the limits. */
  readonly over: number;
}

/** Months of a report. */
const MONTHS = 12;

/** Returns the use of all licenses of an account together in twelve months, oldest first. */
export async function findUsageByMonth(
  database: Database,
  accountUuid: string,
  last: Month,
): Promise<UseOfMonth[]> {
  const first = last.index - MONTHS + 1;
  const sum = (sql: Sql, of: string) =>
    sql`least(sum(${sql.unsafe(of)}), ${Number.MAX_SAFE_INTEGER}::bigint)::bigint`;
  const rows = await database.read<UseOfMonth>(
    (sql) => sql`
      select to_char(u.month, 'YYYY-MM') as month, ${sum(sql, "u.used")} as used, ${sum(sql, "u.over")} as over
        from licenses l
             -- Pairs are compared, so that the planner uses the primary key and reads only these months of it. Another
             -- index would be read for each month and license.
             cross join lateral (select month, used, over from usage
                                  where license_id = l.id
                                    and (license_id, month) >= (l.id, ${toMonth(first).firstDay}::date)
                                    and (license_id, month) <= (l.id, ${last.firstDay}::date)
                                  order by license_id, month offset 0) u
       where l.account_id = ${accountUuid}::uuid
       group by u.month`,
  );
  const found = new Map(rows.map((row) => [row.month, row]));
  return Array.from({ length: MONTHS }, (_, index) => {
    const month = toMonthText(toMonth(first + index));
    const { used = 0, over = 0 } = found.get(month) ?? {};
    return { month, used, over };
  });
}

export interface MonthOfUse {
  readonly licenseId: string;
  readonly licenseUuid: string;
  /** The operator's own name for the license; null if there is none. */
  readonly externalId: string | null;
  readonly userId: string;
  readonly email: string;
  readonly name: string;
  readonly organization: string;
  readonly tier: Tier;
  /** `live`, `test`, or `live+test` if a license has keys of both modes. */
  readonly mode: string;
  /** Null means unlimited. */
  readonly monthlyLimit: number | null;
  readonly used: number;
  /** The units that reports had beyond the limit. */
  readonly over: number;
}

/** Returns the modes of the keys of a row of `licenses` with the alias `l`, as SQL: `live`, `test` or `live+test`. */
export function modesOfLicense(sql: Sql): Fragment {
  return sql`(select string_agg(distinct k.mode, '+' order by k.mode) from keys k where k.license_id = l.id)`;
}

interface UsagePart {
  /** The list begins after this license. */
  readonly afterUuid?: string | undefined;
  readonly limit?: number | null;
  readonly newestFirst?: boolean | undefined;
  /** Orders by use, the most first; with `newestFirst` the least. It reads every row of the table that `search` leaves. */
  readonly byUse?: boolean | undefined;
  /** Only licenses of the accounts and with the external ids that were found. */
  readonly search?: Search | undefined;
}

/** A page orders a table up to this size, which has about 170,000 rows: a larger one could take more than a tenth of a second. */
const MOST_ORDERED_BYTES = 96 * 1024 * 1024;

/** Tells whether the table of use is small enough for an order by use without a search. */
export async function isUseOrdered(database: Database, mostBytes = MOST_ORDERED_BYTES): Promise<boolean> {
  const [row] = await database.read<{ isSmall: boolean }>(
    (sql) => sql`select pg_relation_size('usage') <= ${mostBytes}::bigint as "isSmall"`,
  );
  return row?.isSmall === true;
}

/** Counts the licenses that used any units in a month, also beyond their limit, up to a number, and those after a position. */
export async function countUsage(database: Database, month: Month, part: UsagePart): Promise<number> {
  return await countRows(database, (sql) => selectPart(sql, month, { ...part, limit: MOST_COUNTED + 1 }));
}

function selectPart(sql: Sql, month: Month, part: UsagePart): Fragment {
  const { afterUuid, limit = null, search } = part;
  const isAfter = () => {
    if (!part.byUse) return sql`license_id ${part.newestFirst ? sql`<` : sql`>`} ${afterUuid ?? null}::uuid`;
    return sql`
      (used, license_id) ${part.newestFirst ? sql`>` : sql`<`}
        (select used, license_id from usage where license_id = ${afterUuid ?? null}::uuid and month = ${month.firstDay}::date)`;
  };
  return sql`
    select license_id, used, over from usage
     where month = ${month.firstDay}::date and (used > 0 or over > 0)
       ${afterUuid === undefined ? sql`` : sql`and ${isAfter()}`}
       ${search === undefined ? sql`` : sql`and license_id = any(${selectFound(sql, search)})`}
     order by ${orderOf(sql, part, sql`license_id`)} limit ${limit}::bigint`;
}

/** Returns the array of the licenses that were found, so that the planner looks up each by its id. */
function selectFound(sql: Sql, { accountUuids, licenseUuids }: Search): Fragment {
  return sql`
    array(select id from licenses where account_id = any(${toTextArray(accountUuids)}::uuid[])
           union all select unnest(${toTextArray(licenseUuids)}::uuid[]))`;
}

function orderOf(sql: Sql, { byUse, newestFirst }: UsagePart, license: Fragment): Fragment {
  if (!byUse) return sql`${license} ${newestFirst ? sql`desc` : sql``}`;
  const direction = newestFirst ? sql`` : sql`desc`;
  return sql`used ${direction}, ${license} ${direction}`;
}

/**
 * Lists the use in a month of every license that used any units, by default in the order in which the licenses were made.
 */
export async function listUsage(
  database: Database,
  month: Month,
  part: UsagePart = {},
): Promise<MonthOfUse[]> {
  const rows = await database.read<Omit<MonthOfUse, "licenseId" | "userId"> & { accountUuid: string }>(
    (sql) => sql`
      select l.id as "licenseUuid", l.external_id as "externalId", a.id as "accountUuid", a.email, a.name, a.organization,
             l.tier,
             ${modesOfLicense(sql)} as mode,
             l.monthly_limit as "monthlyLimit", u.used, u.over
        -- The page first, and then each license and account by its id, because of "offset 0": otherwise the planner may
        -- read all licenses before the position.
        from (${selectPart(sql, month, part)}) u
       cross join lateral (select * from licenses where id = u.license_id offset 0) l
       cross join lateral (select * from accounts where id = l.account_id offset 0) a
       order by ${orderOf(sql, part, sql`u.license_id`)}`,
  );
  return rows.map(({ accountUuid, ...rest }) => ({
    licenseId: toId("lic", rest.licenseUuid),
    userId: toId("usr", accountUuid),
    ...rest,
    monthlyLimit: rest.monthlyLimit ?? monthlyLimitOf(rest.tier),
  }));
}

/** Reads the use in a month of every license as {@linkcode listUsage} does, in pages. */
export function usagePages(
  database: Database,
  month: Month,
): AsyncGenerator<readonly MonthOfUse[], undefined> {
  return readPages({
    read: (afterUuid, limit) => listUsage(database, month, { afterUuid, limit }),
    positionOf: ({ licenseUuid }) => licenseUuid,
  });
}
