/**
 * Counts the use per day, tier and mode of all licenses, while the service is under load.
 *
 * Storing an event costs nothing more. Once a minute, the events that were received since the last time are added to
 * their day. This misses an event whose commit took very long. So when a day is over, it is counted again from the use
 * of each license, and then it is exact. The second count reads the licenses of the month in parts, so no statement is
 * long. A day that was changed later, such as by the late commit of another process, is corrected when the next day is
 * over, because its sum differs then. A late event is added to the day on which it happened; a count of that day leaves out
 * what is added next. Corrections and months of earlier versions use the license's tier at the time of counting. So do the
 * days of imported reports, whose months are counted again when the reports have come; units beyond a limit are no part of
 * use per day.
 */
import { DAY_MS, HOUR_MS, monthOf, toDay, toMonth } from "../base/calendar.ts";
import { type Database, toTextArray } from "../database/mod.ts";
import type { TaskContext } from "../database/upkeep/mod.ts";
import { findTierChange, findTiersAt, type RecountOptions, recountMonth } from "./_recount_month.ts";
import { modesOfLicense } from "./report_usage.ts";
import { type ChangedMonth, monthOfFirstDay } from "./reports/mod.ts";

type CountOptions = Pick<TaskContext, "clock" | "isStopping">;

/** How far the count is: the row of `usage_days_progress`. */
interface Progress {
  readonly addedUntil: Date;
  readonly exactUntil: string;
  readonly filledFrom: string | null;
}

/** Events younger than this may still be on their way: a commit has a deadline of some seconds. */
const LAG_MS = 15_000;
/** A day is counted again this long after its end. */
const CLOSING_LAG_MS = 30_000;
/**
 * Several processes count, each once a minute. If another process added events just now, the few that are left are not
 * worth a statement.
 */
const LEAST_MS = 50_000;
/** The time whose events the first statement adds. After a pause the time doubles while statements are short. */
const FIRST_SPAN_MS = 120_000;
const SHORT_MS = 200;
/**
 * After this time a process that counts is taken for dead. It renews this time for each month. Two processes that count
 * at the same time do no harm.
 */
const BUSY_MS = 180_000;
/** On the days of a month until this one, events of the last month may come: seven days after they happened, and a day to spare. */
const LATE_DAYS = 8;
/** How many imported reports are counted together. */
const REPORTS_AT_ONCE = 1_000;
/** A count that is further ahead was made by a clock that was wrong. */
const WRONG_CLOCK_MS = HOUR_MS;

/**
 * Adds the use since the last time, counts the days that are over, and then the months that were never counted. Does
 * nothing while another process counts.
 */
export async function countUse(database: Database, options: CountOptions): Promise<void> {
  const { clock, isStopping } = options;
  if (!(await takeTurn(database, clock.now()))) return;
  try {
    await correctClock(database, clock.now());
    for (let isFilling = true; isFilling && !isStopping(); ) {
      await addUse(database, options);
      await closeDays(database, options);
      isFilling = (await countReports(database, options)) || (await fillMonth(database, options));
    }
  } finally {
    await database.query((sql) => sql`update usage_days_progress set busy_until = null`);
  }
}

/** Forgets all counts. The next count begins anew, with the use of all months under the tiers at its time. */
export async function restartCount(database: Database): Promise<void> {
  await database.query((sql) => sql`with days as (delete from usage_days) delete from usage_days_progress`);
}

/** Tells whether this process is to count now. Then no other process gets the same answer. */
async function takeTurn(database: Database, now: Date): Promise<boolean> {
  const today = toDay(now);
  const busyUntil = new Date(now.getTime() + BUSY_MS);
  const taken = await database.query(
    (sql) => sql`
      insert into usage_days_progress as progress (added_until, exact_until, filled_from, busy_until)
      values (${startOf(today)}::timestamptz, ${today}::date, ${monthAfter(now)}::date, ${busyUntil}::timestamptz)
      on conflict (is_only) do update set busy_until = excluded.busy_until
        where coalesce(progress.busy_until not between ${now}::timestamptz and excluded.busy_until, true)
      returning true as taken`,
  );
  return taken.length > 0;
}

/** Begins anew with today, and with all months, if the count is ahead of the time. */
async function correctClock(database: Database, now: Date): Promise<void> {
  const today = toDay(now);
  await database.query(
    (sql) => sql`
      with corrected as (
        update usage_days_progress
           set added_until = ${startOf(today)}::timestamptz, exact_until = ${today}::date,
               filled_from = ${monthAfter(now)}::date
         where added_until > ${new Date(now.getTime() + WRONG_CLOCK_MS)}::timestamptz
        returning true
      )
      delete from usage_days where day >= ${today}::date and not is_imported and exists (select from corrected)`,
  );
}

/**
 * Adds the events that were received today since the last time, each to the day on which it happened. Events that were
 * received on earlier days are counted when their day is counted again.
 */
async function addUse(database: Database, { clock, isStopping }: CountOptions): Promise<void> {
  let spanMs = FIRST_SPAN_MS;
  while (!isStopping()) {
    const { addedUntil } = await readProgress(database);
    const now = clock.now();
    const today = toDay(now);
    const since = addedFrom(addedUntil, today);
    const until = new Date(Math.min(now.getTime() - LAG_MS, since.getTime() + spanMs));
    if (until.getTime() - since.getTime() < LEAST_MS) return;
    const beganMs = performance.now();
    await database.query(
      (sql) => sql`
        with moved as (
          update usage_days_progress set added_until = ${until}::timestamptz
           where added_until = ${addedUntil}::timestamptz returning true
        ),
        counted as (
          select license_id, (coalesce(occurred_at, received_at) at time zone 'UTC')::date as day, count(*) as units
            from events
           where received_at >= ${since}::timestamptz and received_at < ${until}::timestamptz
             and event_type = 'inference' and exists (select from moved)
             -- A report can have units beyond the limit, and its days are counted by another part.
             and report_id is null
           group by 1, 2
        )
        insert into usage_days (day, is_imported, tier, mode, used)
        select day, false, tier, coalesce(mode, 'live'), sum(units)
          from (select day, l.tier, ${modesOfLicense(sql)} as mode, units
                  from counted
                       cross join lateral (select id, tier from licenses where id = counted.license_id offset 0) as l) as used
         group by 1, 3, 4
        on conflict (day, is_imported, tier, mode) do update set used = usage_days.used + excluded.used`,
    );
    if (performance.now() - beganMs < SHORT_MS) spanMs *= 2;
  }
}

/** Counts the days that are over again, from the use of each license, and so finds changes to earlier days. */
async function closeDays(database: Database, { clock, isStopping }: CountOptions): Promise<void> {
  while (!isStopping()) {
    const { exactUntil, addedUntil } = await readProgress(database);
    const today = toDay(clock.now());
    const receivedUntil = addedFrom(addedUntil, today);
    const isOver = clock.nowMs() - startOf(today).getTime() >= CLOSING_LAG_MS;
    if (exactUntil >= today || !isOver) return;
    const month = monthOf(startOf(exactUntil).getTime());
    // After a pause of several days, a change of a tier must not change the tier of the days before the change.
    const changedAt = await findTierChange(database, new Date(startOf(exactUntil).getTime() + DAY_MS));
    const endMs = Math.min(startOf(today).getTime(), month.endsAtMs, changedAt?.getTime() ?? month.endsAtMs);
    const until = toDay(new Date(endMs));
    const tiers = await findTiersAt(database, startOf(until));
    const counted = { month, from: exactUntil, until, receivedUntil, tiers, isStopping };
    if (!(await recountMonth(database, counted))) return;
    if (Number(exactUntil.slice(-2)) <= LATE_DAYS) {
      // Events of the last month may have come since, and keys that were imported at its end.
      const last = correctionOf(month.index - 1, { until: month.firstDay, receivedUntil });
      if (!(await recountMonth(database, { ...last, isStopping }))) return;
    }
    await database.query((sql) => sql`update usage_days_progress set exact_until = ${until}::date`);
  }
}

/** Counts the latest month that was never counted. Returns whether there may be another one. */
async function fillMonth(database: Database, { clock, isStopping }: CountOptions): Promise<boolean> {
  const { filledFrom, exactUntil, addedUntil } = await readProgress(database);
  if (filledFrom === null) return false;
  const [row] = await database.query<{ index: number | null }>(
    (sql) => sql`
      select extract(year from month)::integer * 12 + extract(month from month)::integer - 1 as index
        from (select greatest((select max(month) from usage where month < ${filledFrom}::date),
                              -- Counted before its use was deleted.
                              (select date_trunc('month', max(day))::date from usage_days where day < ${filledFrom}::date)
                     ) as month) as latest`,
  );
  const index = row?.index ?? null;
  if (index !== null) {
    const receivedUntil = addedFrom(addedUntil, toDay(clock.now()));
    const counted = correctionOf(index, { until: exactUntil, receivedUntil });
    if (!(await recountMonth(database, { ...counted, isStopping }))) return false;
  }
  const busyUntil = new Date(clock.nowMs() + BUSY_MS);
  await database.query(
    (sql) => sql`
      update usage_days_progress
         set filled_from = ${index === null ? null : toMonth(index).firstDay}::date, busy_until = ${busyUntil}::timestamptz`,
  );
  return index !== null;
}

/**
 * Counts the months of imported reports again. The days that are not over are counted at their end. Returns whether there may
 * be more.
 */
async function countReports(database: Database, { clock, isStopping }: CountOptions): Promise<boolean> {
  const reports = await database.query<{ id: string; months: readonly Pick<ChangedMonth, "month">[] }>(
    (sql) =>
      sql`select id, months from usage_reports where not is_counted order by id limit ${REPORTS_AT_ONCE}`,
  );
  if (reports.length === 0) return false;
  const { exactUntil, addedUntil } = await readProgress(database);
  const receivedUntil = addedFrom(addedUntil, toDay(clock.now()));
  const months = new Set(reports.flatMap((report) => report.months.map(({ month }) => month)));
  for (const month of months) {
    const { index } = monthOfFirstDay(`${month}-01`);
    const counted = correctionOf(index, { until: exactUntil, receivedUntil });
    if (!(await recountMonth(database, { ...counted, isStopping }))) return false;
    const busyUntil = new Date(clock.nowMs() + BUSY_MS);
    await database.query((sql) => sql`update usage_days_progress set busy_until = ${busyUntil}::timestamptz`);
  }
  const ids = toTextArray(reports.map(({ id }) => id));
  await database.query(
    (sql) => sql`update usage_reports set is_counted = true where id = any(${ids}::uuid[])`,
  );
  return reports.length === REPORTS_AT_ONCE;
}

/** Describes a count of a month that changes only the days whose sum is wrong. */
function correctionOf(
  index: number,
  { until, receivedUntil }: Pick<RecountOptions, "until" | "receivedUntil">,
): Omit<RecountOptions, "isStopping"> {
  return { month: toMonth(index), from: until, until, receivedUntil, tiers: new Map() };
}

/** Returns the time from which on received events are added next: those of earlier days are counted with their day. */
function addedFrom(addedUntil: Date, today: string): Date {
  return new Date(Math.max(addedUntil.getTime(), startOf(today).getTime()));
}

async function readProgress(database: Database): Promise<Progress> {
  const [progress] = await database.query<Progress>(
    (sql) => sql`
      select added_until as "addedUntil", to_char(exact_until, 'YYYY-MM-DD') as "exactUntil",
             to_char(filled_from, 'YYYY-MM-DD') as "filledFrom"
        from usage_days_progress`,
  );
  if (progress === undefined) throw new Error("The count of use was restarted meanwhile");
  return progress;
}

function startOf(day: string): Date {
  return new Date(`${day}T00:00:00Z`);
}

function monthAfter(now: Date): string {
  return toMonth(monthOf(now.getTime()).index + 1).firstDay;
}
