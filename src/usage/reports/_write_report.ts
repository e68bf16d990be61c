/**
 * The one statement of an import: it moves the journal of the machine on, stores the events, counts the units of each month
 * within its limit and the others as `over`, and writes the row of the audit log.
 *
 * The journal decides. Its row is locked and changed first, and only if this report is the next one: of two processes with the
 * same report the later one finds the row changed, and does nothing. The digest of a report is unique in all journals, so an
 * operator who begins another journal imports no report twice either.
 *
 * A report can have 100,000 events, which take some seconds to store. Clients of its license send events meanwhile, so the
 * rows that they need are locked after that, for the short rest of the statement: `usage` by month, and those that count texts.
 * That is the order of all statements. None that waits for a row of `usage` holds one of another month, so none waits in a
 * circle.
 */
import { auditCte, type By } from "../../audit/mod.ts";
import { monthOf } from "../../base/calendar.ts";
import { newUuid } from "../../base/ids.ts";
import { constraintOf, type Database, type Fragment, type Sql, toTextArray } from "../../database/mod.ts";
import { effectiveLimit } from "../../licensing/mod.ts";
import {
  hasTexts,
  laterTextRoomCtes,
  storedTexts,
  type TextBounds,
  textsWrittenCtes,
} from "../_text_room.ts";
import { grantedUnits } from "../granted_units.ts";
import type { UsageReport } from "./parse_report.ts";
import type { ReportedEvent } from "./read_events.ts";
import { type Allowed, type ChangedMonth, marksOf, marksOfAllowed, type OpenJournal } from "./standing.ts";

/** What the statement has written. */
export interface WrittenReport {
  readonly months: readonly ChangedMonth[];
  readonly marks: readonly string[];
}

interface WriteOptions extends By {
  readonly textBounds: TextBounds;
  /** What an operator lets pass. */
  readonly allowed: Allowed;
  /** The journal of the machine as it was read; null before its first report. */
  readonly open: OpenJournal | null;
}

/** Runs the statement; undefined if the report is not the next one any more. One long function, because it is one statement. */
export async function writeReport(
  database: Database,
  report: UsageReport,
  { actor, now, textBounds, allowed, open }: WriteOptions,
): Promise<WrittenReport | undefined> {
  const { licenseUuid, machine, number, digest, events } = report;
  const [id, journalId, writer] = [newUuid(), newUuid(), newUuid()];
  const months = report.months.map(({ firstDay, units, byDay }) => ({
    month: firstDay,
    units,
    by_day: byDay,
  }));
  const hasEvents = events.length > 0;
  const needsRoom = events.some(needsTexts);
  const build = (sql: Sql) => sql`
    with ${allowed.newJournal ? anotherJournal(sql, report, { journalId, now, open }) : nextOfJournal(sql, report, { journalId, now })},
    subject as (
      select l.id as license_id, l.account_id, ${effectiveLimit(sql)} as limited_to, chain.id as journal_id,
             ${marksOf(sql, now)} || ${toTextArray(marksOfAllowed(report, now, allowed))}::text[] as marks,
             -- An event belongs to a key, and so does a change of a license. A report names none.
             (select k.id from keys k where k.license_id = l.id order by k.state = 'active' desc, k.id desc limit 1) as key_id
        from chain cross join licenses l where l.id = ${licenseUuid}::uuid
    ),
    ${hasEvents ? storedEvents(sql, report, { id, now, textBounds, needsRoom }) : sql``}
    wanted as (
      select license_id, month, units, by_day, limited_to,
             least(units, coalesce(limited_to, ${Number.MAX_SAFE_INTEGER}::bigint)) as fits
        from subject
             ${hasEvents ? sql`cross join (select count(*) from stored) as stored_before` : sql``}
             cross join json_to_recordset(${JSON.stringify(months)}::text::json)
                     as reported (month date, units bigint, by_day bigint[])
    ),
    granted as (
      insert into usage as u (license_id, month, used, granted, over, by_day, limited_to)
      select license_id, month, fits, fits, units - fits, first_units(by_day, fits), limited_to
        from wanted order by month
      on conflict (license_id, month) do update
        set granted = ${grantedUnits(sql)},
            used = u.used + ${grantedUnits(sql)},
            over = least(u.over + excluded.granted + excluded.over - ${grantedUnits(sql)},
                         ${Number.MAX_SAFE_INTEGER}::bigint),
            by_day = add_days(u.by_day, first_units(excluded.by_day, ${grantedUnits(sql)})),
            limited_to = excluded.limited_to
      returning month, granted, used, over
    ),
    counted as (
      select month, units, granted, units - granted as beyond, used, over from granted join wanted using (month)
    ),
    tally as (
      select coalesce(sum(granted), 0)::bigint as granted, coalesce(sum(beyond), 0)::bigint as beyond,
             coalesce(json_agg(json_build_object(
               'month', to_char(month, 'YYYY-MM'), 'units', units, 'over', beyond,
               'before', json_build_object('used', used - granted, 'over', over - beyond),
               'after', json_build_object('used', used, 'over', over)) order by month), '[]') as months,
             ${auditedCounts(sql, { used: sql`used - granted`, over: sql`over - beyond` })} as before,
             ${auditedCounts(sql, { used: sql`used`, over: sql`over` })} as after
        from counted
    ),
    changed as (
      select account_id, license_id, key_id, tally.before,
             tally.after || jsonb_build_object('report', ${number}::bigint, 'machine', ${machine}::text)
               || case when marks = '{}' then '{}' else jsonb_build_object('marks', marks) end as after
        from subject cross join tally
    ),
    logged as (${auditCte(sql, { action: "usage.report", actor, at: now, from: sql`changed` })}),
    ${needsRoom ? textsWrittenCtes(sql, textBounds, now.getTime()) : sql``}
    noted as (
      -- The writer is no process, so every process learns it from the next pulse. A cache has one month, so it does not learn
      -- of a day that a clock dates into the next one.
      insert into usage_changes (writer, month, license_ids, used)
      select ${writer}::uuid, month, array[${licenseUuid}::uuid], array[used] from counted
       where granted > 0 and month <= ${monthOf(now.getTime()).firstDay}::date
    ),
    reported as (
      insert into usage_reports (id, journal_id, number, digest, made_at, imported_at, units, over, days, events, months, marks)
      select ${id}::uuid, journal_id, ${number}::bigint, decode(${digest}, 'hex'), ${report.madeAt}::timestamptz,
             ${now}::timestamptz, tally.granted, tally.beyond, ${report.days}::integer, ${events.length}::integer,
             tally.months::jsonb, marks
        from subject cross join tally
    )
    select months, to_json(marks) as marks from subject cross join tally`;
  try {
    const [row] = await database.query<WrittenReport>(build);
    return row;
  } catch (error) {
    // Another process imported the same report, or another one, at the same moment.
    if (CLAIMED.has(constraintOf(error) ?? "")) return undefined;
    throw error;
  }
}

const CLAIMED: ReadonlySet<string> = new Set([
  "usage_reports_digest",
  "usage_reports_number",
  "usage_journals_one_open",
]);

/** Returns the CTE `chain`: the journal of the machine, if the report is the next one in it, or the first one of the machine. */
function nextOfJournal(
  sql: Sql,
  report: UsageReport,
  { journalId, now }: { readonly journalId: string; readonly now: Date },
): Fragment {
  const { licenseUuid, machine, journal, number, previous, digest } = report;
  return sql`
    moved as (
      update usage_journals
         set last_number = ${number}::bigint, last_digest = decode(${digest}, 'hex'), reported_at = ${now}::timestamptz
       where license_id = ${licenseUuid}::uuid and machine = decode(${machine}, 'hex') and ended_at is null
         and journal = decode(${journal}, 'hex') and last_number = ${number}::bigint - 1
         and last_digest = decode(${previous}::text, 'hex')
      returning id
    ),
    begun as (
      ${insertJournal(sql, report, { journalId, now })}
       where ${number}::bigint = 1
         and not exists (select from usage_journals
                          where license_id = ${licenseUuid}::uuid and machine = decode(${machine}, 'hex') and ended_at is null)
      on conflict (license_id, machine) where ended_at is null do nothing
      returning id
    ),
    chain as (select id from moved union all select id from begun)`;
}

/** Returns the CTE `chain`: another journal, which ends the one of the machine that was read before. */
function anotherJournal(
  sql: Sql,
  report: UsageReport,
  {
    journalId,
    now,
    open,
  }: { readonly journalId: string; readonly now: Date; readonly open: OpenJournal | null },
): Fragment {
  return sql`
    ended as (
      update usage_journals set ended_at = ${now}::timestamptz
       where id = ${open?.uuid ?? null}::uuid and ended_at is null and last_number = ${open?.number ?? null}::bigint
      returning id
    ),
    chain as (
      ${insertJournal(sql, report, { journalId, now })}
       where (select count(*) from ended) = ${open === null ? 0 : 1}::integer
      returning id
    )`;
}

function insertJournal(
  sql: Sql,
  { licenseUuid, machine, journal, number, digest }: UsageReport,
  { journalId, now }: { readonly journalId: string; readonly now: Date },
): Fragment {
  return sql`
      insert into usage_journals (id, license_id, machine, journal, last_number, last_digest, began_at, reported_at)
      select ${journalId}::uuid, ${licenseUuid}::uuid, decode(${machine}, 'hex'), decode(${journal}, 'hex'), ${number}::bigint,
             decode(${digest}, 'hex'), ${now}::timestamptz, ${now}::timestamptz`;
}

/** Returns the counts of all months as the audit log has them, such as `used_2026-11`; a count of 0 beyond is left out. */
function auditedCounts(
  sql: Sql,
  { used, over }: { readonly used: Fragment; readonly over: Fragment },
): Fragment {
  return sql`
    coalesce(jsonb_object_agg('used_' || to_char(month, 'YYYY-MM'), ${used}) , '{}')
      || coalesce(jsonb_object_agg('over_' || to_char(month, 'YYYY-MM'), ${over}) filter (where over > 0), '{}')`;
}

function needsTexts({ metadata, error_message, model_name }: ReportedEvent): boolean {
  const text = metadata === null ? null : "{}";
  return hasTexts({ metadata: text, errorMessage: error_message, modelName: model_name });
}

/** Returns the CTEs that store the events. All are stored, also those beyond the limit: they are facts. */
function storedEvents(
  sql: Sql,
  { events }: UsageReport,
  {
    id,
    now,
    textBounds,
    needsRoom,
  }: {
    readonly id: string;
    readonly now: Date;
    readonly textBounds: TextBounds;
    readonly needsRoom: boolean;
  },
): Fragment {
  return sql`
    accepted as (
      select reported.*, license_id, key_id, row_number() over () as position
        from subject
             cross join json_to_recordset(${JSON.stringify(events)}::text::json) as reported (
               id uuid, occurred_ms double precision, event_type text, model_name text, inference_type text,
               duration_ms double precision, success boolean, error_message text, metadata jsonb)
    ),
    ${needsRoom ? laterTextRoomCtes(sql, textBounds, now.getTime()) : sql``}
    stored as (
      insert into events (id, received_at, occurred_at, key_id, license_id, event_type, inference_type, duration_ms, success,
                          report_id, model_name, error_message, metadata)
      select id, ${now}::timestamptz, to_timestamp(occurred_ms / 1000), key_id, license_id, event_type, inference_type,
             duration_ms, success, ${id}::uuid,
             ${needsRoom ? storedTexts(sql) : sql`model_name, error_message, metadata`}
        from ${needsRoom ? sql`marked` : sql`accepted`}
      returning 1
    ),`;
}
