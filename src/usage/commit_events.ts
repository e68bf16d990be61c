/**
 * The one statement that commits events: it grants quota, stores what was granted, and says how much.
 *
 * The grant is an upsert that gives `least(wanted, what is left)`, on the locked row, so that no number of
 * requests or processes gets past the limit. Its insert branch is capped like its update branch: a month's
 * first batch can ask for too much as well. Parts of one statement do not see each other's writes, so the
 * row carries what it was granted last, and the part that stores the events reads that. Rows are locked in
 * the order of their licenses, or two processes could wait for each other.
 */
import { monthOf } from "../calendar.ts";
import { type Database, toTextArray } from "../database/mod.ts";
import { effectiveLimit } from "../licensing/mod.ts";
import type { UsageEvent } from "./event.ts";

export interface Grant {
  readonly licenseUuid: string;
  /** Units that this commit gave, of those it was asked for. */
  readonly granted: number;
  /** Units used in the month after it. */
  readonly used: number;
}

export interface CommitOptions {
  readonly processUuid: string;
  readonly deadlineMs: number;
}

/**
 * Commits events that were all received on one day (UTC). Of the `inference` events of a license the first
 * so many are stored as were granted, in the order given; every other event is stored. Returns the grants
 * of the licenses that asked for units.
 */
export async function commitEvents(
  database: Database,
  events: readonly UsageEvent[],
  { processUuid, deadlineMs }: CommitOptions,
): Promise<Grant[]> {
  const receivedAtMs = events[0]?.receivedAtMs ?? 0;
  const month = monthOf(receivedAtMs).firstDay;
  const day = new Date(receivedAtMs).getUTCDate();
  const column = (value: (event: UsageEvent) => string | number | boolean | null) =>
    toTextArray(events.map(value));
  return await database.query<Grant>(
    (sql) => sql`
      with event as (
        select * from unnest(
          ${column((event) => event.uuid)}::text[]::uuid[],
          ${column((event) => event.receivedAtMs)}::text[]::double precision[],
          ${column((event) => event.keyUuid)}::text[]::uuid[],
          ${column((event) => event.licenseUuid)}::text[]::uuid[],
          ${column((event) => event.type)}::text[],
          ${column((event) => event.modelName)}::text[],
          ${column((event) => event.inferenceType)}::text[],
          ${column((event) => event.durationMs)}::text[]::double precision[],
          ${column((event) => event.success)}::text[]::boolean[],
          ${column((event) => event.errorMessage)}::text[],
          ${column((event) => event.metadata)}::text[]::jsonb[]
        ) with ordinality as event (
          id, received_ms, key_id, license_id, event_type, model_name, inference_type, duration_ms, success,
          error_message, metadata, position)
      ),
      wanted as (
        select license_id, count(*) as units from event where event_type = 'inference' group by license_id
      ),
      capped as (
        select license_id, least(units, ${effectiveLimit(sql)}) as units
          from wanted join licenses l on l.id = license_id
      ),
      granted as (
        insert into usage as u (license_id, month, used, granted, by_day)
        select license_id, ${month}::date, units, units,
               array_fill(0::bigint, array[${day - 1}::integer]) || units
                 || array_fill(0::bigint, array[${31 - day}::integer])
          from capped
         order by license_id
        on conflict (license_id, month) do update
          set (granted, used, by_day[${day}::integer]) = (
            select fair, u.used + fair, u.by_day[${day}::integer] + fair
              from (
                select least(excluded.granted, greatest(coalesce(${effectiveLimit(sql)}, 9007199254740991) - u.used, 0)) as fair
                  from licenses l where l.id = u.license_id
              ) as share
          )
        returning license_id, granted, used
      ),
      ranked as (
        select *, row_number() over (partition by license_id, event_type = 'inference' order by position) as rank
          from event
      ),
      stored as (
        insert into events (id, received_at, key_id, license_id, event_type, model_name, inference_type,
                            duration_ms, success, error_message, metadata)
        select id, to_timestamp(received_ms / 1000), key_id, license_id, event_type, model_name,
               inference_type, duration_ms, success, error_message, metadata
          from ranked left join granted using (license_id)
         where event_type <> 'inference' or rank <= granted
      ),
      noted as (
        insert into usage_changes (writer, month, license_ids, used)
        select ${processUuid}::uuid, ${month}::date, array_agg(license_id), array_agg(used)
          from granted where granted > 0
        having count(*) > 0
      )
      select license_id as "licenseUuid", granted, used from granted`,
    { deadlineMs },
  );
}
