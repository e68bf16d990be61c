/** Compares the use by day of all licenses with the events, and with the export for accounting. */
import { expect } from "bun:test";
import { monthOf } from "../../../src/base/calendar.ts";
import type { Database } from "../../../src/database/mod.ts";
import { listUsage, readUsageDays, type UsageDays } from "../../../src/usage/mod.ts";

export async function readDays(database: Database): Promise<UsageDays> {
  const days = await readUsageDays(database, { from: "2026-01-01", to: "2027-12-31" });
  if (days === undefined) throw new Error("Nothing was counted");
  return days;
}

export const sumOf = (rows: readonly { readonly used: number }[]) =>
  rows.reduce((sum, { used }) => sum + used, 0);

/** Compares the sum of every month that is over with that of the export, and returns how many there were. */
export async function compareWithExport(database: Database, nowMs: number): Promise<number> {
  const { days, imported } = await readDays(database);
  const months = await database.query<{ month: string }>(
    (sql) =>
      sql`select distinct to_char(month, 'YYYY-MM') as month from usage where month < ${monthOf(nowMs).firstDay}::date order by 1`,
  );
  for (const { month } of months) {
    const exported = await listUsage(database, monthOf(Date.parse(`${month}-01T00:00:00Z`)));
    const counted = [
      ...days.filter(({ day }) => day.startsWith(month)),
      ...imported.filter((row) => row.month === month),
    ];
    for (const mode of ["live", "test", "live+test"])
      expect([month, mode, sumOf(counted.filter((row) => row.mode === mode))]).toEqual([
        month,
        mode,
        sumOf(exported.filter((row) => row.mode === mode)),
      ]);
  }
  return months.length;
}

/** Use that was received before the last count is counted. On days that are over, all use is counted. */
export async function compareDays(database: Database): Promise<void> {
  const { asOf, days, exactUntil } = await readDays(database);
  const expected = await database.query<{ day: string; used: number }>(
    (sql) => sql`
      select to_char(coalesce(occurred_at, received_at) at time zone 'UTC', 'YYYY-MM-DD') as day, count(*) as used from events
       where received_at < ${asOf}::timestamptz or (received_at at time zone 'UTC')::date < ${exactUntil}::date
       group by 1 order by 1`,
  );
  const byDay = Object.entries(Object.groupBy(days, ({ day }) => day));
  expect(byDay.map(([day, rows = []]) => ({ day, used: sumOf(rows) }))).toEqual([...expected]);
}
