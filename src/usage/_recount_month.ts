/** Counts the use of a month anew, from the use of each license, and stores the days that differ. */
import { setTimeout as sleep } from "node:timers/promises";
import { daysOf, type Month } from "../base/calendar.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import type { TaskContext } from "../database/upkeep/mod.ts";
import { modesOfLicense } from "./report_usage.ts";

export interface RecountOptions extends Pick<TaskContext, "isStopping"> {
  readonly month: Month;
  /** From this day on, every day is stored. An earlier day is stored only if its sum differs. */
  readonly from: string;
  /** The first day that is not counted, because it is not over. */
  readonly until: string;
  /** Events that were received from this time on are left out: they are added later, each to its day. */
  readonly receivedUntil: Date;
  /** The tiers, by license, that differ from the present ones. */
  readonly tiers: ReadonlyMap<string, string>;
}

/** The licenses of one statement: it takes some 50 ms. */
const LICENSES = 5_000;
/** The pause after a statement, as a share of its time, so that this work takes at most half of a connection. */
const REST_SHARE = 1;
const LONGEST_MONTH = 31;

/** Returns `false` if it was stopped before the end; then nothing was changed. */
export async function recountMonth(database: Database, options: RecountOptions): Promise<boolean> {
  const counted = await countMonth(database, options);
  if (counted === undefined) return false;
  await store(database, counted, options);
  return true;
}

/**
 * Finds the licenses that had another tier at an instant than now, and returns the earlier tier. The audit log has
 * every change with the tier before it.
 */
export async function findTiersAt(database: Database, at: Date): Promise<Map<string, string>> {
  const rows = await database.query<{ license: string; tier: string }>(
    (sql) => sql`
      select distinct on (license_id) license_id as license, before ->> 'tier' as tier from audit
       where at >= ${at}::timestamptz and action in ('license.tier', 'license.change')
       order by license_id, at, id`,
  );
  return new Map(rows.map(({ license, tier }) => [license, tier]));
}

/** Finds the first instant from one on at which a tier may have changed; undefined if none did. */
export async function findTierChange(database: Database, from: Date): Promise<Date | undefined> {
  const [row] = await database.query<{ first: Date | null }>(
    (sql) => sql`
      select min(at) as first from audit
       where at >= ${from}::timestamptz and action in ('license.tier', 'license.change')`,
  );
  return row?.first ?? undefined;
}

/** The use by day, tier and mode. The day is the day of the month from 1 on, or 0 for imported use. */
type Counted = ReadonlyMap<number, ReadonlyMap<string, CountedRow>>;

type CountedRow = Pick<Group, "tier" | "mode" | "used">;

interface Group {
  readonly tier: string;
  readonly mode: string;
  readonly licenses: number;
  readonly lastLicense: string;
  readonly used: number;
  readonly byDay: readonly number[];
}

async function countMonth(
  database: Database,
  { month, receivedUntil, tiers, isStopping }: RecountOptions,
): Promise<Counted | undefined> {
  const { length } = daysOf(month);
  const counted = new Map<number, Map<string, CountedRow>>();
  const add = (place: number, { tier, mode }: Group, used: number) => {
    const rows = counted.get(place) ?? new Map<string, CountedRow>();
    const name = `${tier} ${mode}`;
    counted.set(place, rows.set(name, { tier, mode, used: used + (rows.get(name)?.used ?? 0) }));
  };
  for (let after: string | undefined = "00000000-0000-0000-0000-000000000000"; after !== undefined; ) {
    if (isStopping()) return undefined;
    const beganMs = performance.now();
    const groups: Group[] = await readGroups(database, { month, receivedUntil, after, tiers });
    for (const group of groups) {
      const days = group.byDay.slice(0, length);
      for (const [index, used] of days.entries()) if (used > 0) add(index + 1, group, used);
      const imported = days.reduce((rest, used) => rest - used, group.used);
      if (imported > 0) add(0, group, imported);
    }
    const licenses = groups.reduce((sum, group) => sum + group.licenses, 0);
    // As text, identifiers have the order of the database.
    after =
      licenses < LICENSES
        ? undefined
        : groups
            .map(({ lastLicense }) => lastLicense)
            .sort()
            .at(-1);
    if (after !== undefined) await sleep(REST_SHARE * (performance.now() - beganMs));
  }
  return counted;
}

/**
 * Sums the use of the next licenses after one, by tier and mode. Late events that are added later are subtracted in the same
 * statement, which sees them in the use if and only if it sees them in their table.
 */
async function readGroups(
  database: Database,
  {
    month,
    receivedUntil,
    after,
    tiers,
  }: Pick<RecountOptions, "month" | "receivedUntil" | "tiers"> & { readonly after: string },
): Promise<Group[]> {
  return await database.query<Group>(
    (sql) => sql`
      with part as (
        select license_id, used, by_day from usage
         where month = ${month.firstDay}::date and license_id > ${after}::uuid
         order by license_id limit ${LICENSES}
      ),
      later as (
        select license_id, extract(day from occurred_at at time zone 'UTC')::integer as day, count(*) as units
          from events
         where received_at >= ${receivedUntil}::timestamptz
           and occurred_at >= ${new Date(month.beginsAtMs)}::timestamptz
           and occurred_at < ${new Date(month.endsAtMs)}::timestamptz
           and event_type = 'inference' and report_id is null and license_id in (select license_id from part)
         group by 1, 2
      )
      select tier, mode, count(*) filter (where not is_later) as licenses, max(license_id::text) as "lastLicense",
             sum(used)::bigint as used, ${sumsByDay(sql)} as "byDay"
        from (
          select u.license_id, u.used, u.by_day, u.is_later, coalesce(earlier.tier, l.tier) as tier,
                 coalesce(${modesOfLicense(sql)}, 'live') as mode
            from (select license_id, used, by_day, false as is_later from part
                  union all
                  select license_id, -units, array_fill(0::bigint, array[day - 1]) || -units
                                               || array_fill(0::bigint, array[${LONGEST_MONTH} - day]), true
                    from later) as u
                 -- With \`offset 0\` each license is looked up: a join would read all licenses for each part.
                 cross join lateral (select id, tier from licenses where id = u.license_id offset 0) as l
            left join unnest(${toTextArray([...tiers.keys()])}::uuid[], ${toTextArray([...tiers.values()])}::text[])
                   as earlier (license_id, tier) on earlier.license_id = l.id
        ) as used
       group by tier, mode`,
  );
}

function sumsByDay(sql: Sql): Fragment {
  const sums = Array.from({ length: LONGEST_MONTH }, (_, index) => `sum(by_day[${index + 1}])::bigint`);
  return sql.unsafe(`json_build_array(${sums.join(", ")})`);
}

async function store(
  database: Database,
  counted: Counted,
  { month, from, until }: RecountOptions,
): Promise<void> {
  const stored = await readSums(database, month);
  // Imported use has the place 0 and the first day.
  const dayOf = [month.firstDay, ...daysOf(month)];
  const places = [...dayOf.entries()].filter(([place, day]) => {
    const rows = [...(counted.get(place)?.values() ?? [])];
    const differs = rows.reduce((sum, { used }) => sum + used, 0) !== (stored.get(place) ?? 0);
    return place === 0 ? differs : day < until && (day >= from || differs);
  });
  const days = places.map(([place, day]) => ({ day, is_imported: place === 0 }));
  const rows = places.flatMap(([place], index) =>
    [...(counted.get(place)?.values() ?? [])].map((row) => ({ ...row, ...days[index] })),
  );
  await database.query(
    (sql) => sql`
      with fresh as (
        select * from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb)
                   as fresh (day date, is_imported boolean, tier text, mode text, used bigint)
      ),
      gone as (
        delete from usage_days as stored
         using jsonb_to_recordset(${JSON.stringify(days)}::text::jsonb) as counted (day date, is_imported boolean)
         where stored.day = counted.day and stored.is_imported = counted.is_imported
           and (stored.tier, stored.mode) not in (
                 select tier, mode from fresh
                  where fresh.day = stored.day and fresh.is_imported = stored.is_imported)
      )
      insert into usage_days (day, is_imported, tier, mode, used)
      select day, is_imported, tier, mode, used from fresh
      on conflict (day, is_imported, tier, mode) do update set used = excluded.used`,
  );
}

/** Reads the stored sums of the month by place. */
async function readSums(database: Database, month: Month): Promise<Map<number, number>> {
  const rows = await database.query<{ place: number; used: number }>(
    (sql) => sql`
      select case when is_imported then 0 else extract(day from day)::integer end as place, sum(used)::bigint as used
        from usage_days
       where day >= ${month.firstDay}::date and day < ${month.resetsAt.slice(0, 10)}::date
       group by 1`,
  );
  return new Map(rows.map(({ place, used }) => [place, used]));
}
