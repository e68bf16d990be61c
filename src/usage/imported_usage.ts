import type { Month } from "../calendar.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";

/** Returns the CTE that writes the use of a month for imported keys, from a relation `line (license_id, used)`. */
export function importedUsageCte(sql: Sql, month: Month): Fragment {
  return sql`
    insert into usage (license_id, month, used)
    select license_id, ${month.firstDay}::date, used from line where used > 0`;
}

/** The use of a license on the days of a month. */
export interface UsageOfDays {
  readonly licenseUuid: string;
  readonly month: Month;
  /** The units of the days, beginning with the first day of the month; days at the end can be left out. */
  readonly byDay: readonly number[];
  /** The units of the month whose day is unknown. */
  readonly imported: number;
}

/**
 * Writes the use of months in which the licenses have no use yet. A demo gets its use of earlier days by this function.
 */
export async function insertUsageByDay(database: Database, rows: readonly UsageOfDays[]): Promise<void> {
  await database.query(
    (sql) => sql`
      insert into usage (license_id, month, used, by_day)
      select license_id, month, imported + (select sum(used) from unnest(by_day) as used), by_day
        from unnest(${toTextArray(rows.map(({ licenseUuid }) => licenseUuid))}::uuid[],
                    ${toTextArray(rows.map(({ month }) => month.firstDay))}::date[],
                    ${toTextArray(rows.map(({ imported }) => imported))}::bigint[],
                    ${toTextArray(rows.map(({ byDay }) => toDays(byDay)))}::text[])
               as given (license_id, month, imported, days)
             cross join lateral (select days::bigint[]) as parsed (by_day)`,
  );
}

/** Returns an array of PostgreSQL with the 31 days that a row of `usage` has. */
function toDays(byDay: readonly number[]): string {
  return `{${Array.from({ length: 31 }, (_, index) => byDay[index] ?? 0)}}`;
}

/** Deletes the use of all licenses of accounts. Only for the accounts of a demo, because nobody pays for their use. */
export async function deleteUsage(database: Database, accountUuids: readonly string[]): Promise<void> {
  await database.query(
    (sql) => sql`
      delete from usage
       where license_id in (select id from licenses where account_id = any(${toTextArray(accountUuids)}::uuid[]))`,
  );
}
