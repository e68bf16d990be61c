/**
 * The one statement that commits events: it grants quota, stores what was granted, and says how much.
 *
 * The grant is an upsert that gives `least(wanted, what is left)`, on the locked row, so that no number of
 * requests or processes gets past the limit. Its insert branch is capped like its update branch: a month's
 * first batch can ask for too much as well. Parts of one statement do not see each other's writes, so the
 * row carries what it was granted last, and the part that stores the events reads that. Rows are locked in
 * the order of their licenses, or two processes could wait for each other.
 *
 * An event with a claim (an idempotency key) that is known already is neither granted nor stored again. A
 * claim is written with its event, so that an event which quota refused leaves none. Where two processes
 * bring the same claim at the same moment, the later one breaks the constraint `claims_pkey`, nothing of
 * its batch is kept, and tried again it finds the claim known.
 */
import { monthOf } from "../calendar.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { effectiveLimit } from "../licensing/mod.ts";
import type { Claim, UsageEvent } from "./event.ts";

export interface Grant {
  readonly licenseUuid: string;
  /** Units that this commit gave, of those it was asked for. */
  readonly granted: number;
  /** Units used in the month after it. */
  readonly used: number;
}

/** An event whose claim was known: it was stored before, as another event. */
export interface KnownEvent {
  /** Which event of the batch, from 0. */
  readonly index: number;
  /** The event that the claim stands for. */
  readonly eventUuid: string;
  /** Whether that event had the same fields. */
  readonly isSame: boolean;
}

export interface CommittedBatch {
  /** The grants of the licenses that asked for units. */
  readonly grants: readonly Grant[];
  readonly known: readonly KnownEvent[];
}

export interface CommitOptions {
  readonly processUuid: string;
  readonly deadlineMs: number;
}

/**
 * Commits events that were all received on one day (UTC). Of the `inference` events of a license the first
 * so many are stored as were granted, in the order given; every other event is stored, save those whose
 * claim is known.
 */
export async function commitEvents(
  database: Database,
  events: readonly UsageEvent[],
  { processUuid, deadlineMs }: CommitOptions,
): Promise<CommittedBatch> {
  const receivedAtMs = events[0]?.receivedAtMs ?? 0;
  const month = monthOf(receivedAtMs).firstDay;
  const day = new Date(receivedAtMs).getUTCDate();
  const column = (value: (event: UsageEvent) => string | number | boolean | null) =>
    toTextArray(events.map(value));
  const hasClaims = events.some((event) => event.claim !== null);
  const [row] = await database.query<Row>(
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
      ${hasClaims ? claimedParts(sql, column) : unclaimedParts(sql)},
      wanted as (
        select license_id, count(*) as units from fresh where event_type = 'inference' group by license_id
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
                select least(
                         excluded.granted,
                         greatest(coalesce(${effectiveLimit(sql)}, 9007199254740991) - u.used, 0)
                       ) as fair
                  from licenses l where l.id = u.license_id
              ) as share
          )
        returning license_id, granted, used
      ),
      ranked as (
        select *, row_number() over (partition by license_id, event_type = 'inference' order by position) as rank
          from fresh
      ),
      accepted as (
        select ranked.* from ranked left join granted using (license_id)
         where event_type <> 'inference' or rank <= granted
      ),
      stored as (
        insert into events (id, received_at, key_id, license_id, event_type, model_name, inference_type,
                            duration_ms, success, error_message, metadata)
        select id, to_timestamp(received_ms / 1000), key_id, license_id, event_type, model_name,
               inference_type, duration_ms, success, error_message, metadata
          from accepted
      ),
      ${hasClaims ? claimsWritten(sql) : sql``}
      noted as (
        insert into usage_changes (writer, month, license_ids, used)
        select ${processUuid}::uuid, ${month}::date, array_agg(license_id), array_agg(used)
          from granted where granted > 0
        having count(*) > 0
      )
      select (select coalesce(json_agg(json_build_array(license_id, granted, used)), '[]') from granted) as grants,
             (select coalesce(json_agg(json_build_array(position - 1, event_id, is_same)), '[]')
                from known) as known`,
    { deadlineMs },
  );
  return {
    grants: (row?.grants ?? []).map(([licenseUuid, granted, used]) => ({ licenseUuid, granted, used })),
    known: (row?.known ?? []).map(([index, eventUuid, isSame]) => ({ index, eventUuid, isSame })),
  };
}

interface Row {
  readonly grants: readonly (readonly [licenseUuid: string, granted: number, used: number])[];
  readonly known: readonly (readonly [index: number, eventUuid: string, isSame: boolean])[];
}

/** The parts `known` and `fresh` where no event has a claim: nothing is looked up. */
function unclaimedParts(sql: Sql): Fragment {
  return sql`
      known as (select position, id as event_id, true as is_same from event where false),
      fresh as (select * from event)`;
}

/** The parts `known`, the events whose claim is known, and `fresh`, all the others. */
function claimedParts(sql: Sql, column: (value: (event: UsageEvent) => string | null) => string): Fragment {
  const bytes = (value: (claim: Claim) => string) =>
    column((event) => (event.claim === null ? null : `\\x${value(event.claim)}`));
  return sql`
      claimed as (
        select * from unnest(
          ${bytes((claim) => claim.hash)}::text[]::bytea[],
          ${bytes((claim) => claim.eventHash)}::text[]::bytea[]
        ) with ordinality as claimed (claim, event_hash, position)
      ),
      known as (
        select position, c.event_id, c.event_hash = claimed.event_hash as is_same
          from event join claimed using (position) join claims c using (key_id, claim)
      ),
      fresh as (select * from event where position not in (select position from known))`;
}

/** The part that writes the claims of the accepted events, in the order of their key. */
function claimsWritten(sql: Sql): Fragment {
  return sql`
      claims_written as (
        insert into claims (key_id, claim, event_hash, event_id, claimed_at)
        select key_id, claim, event_hash, id, to_timestamp(received_ms / 1000)
          from accepted join claimed using (position)
         where claim is not null
         order by key_id, claim
      ),`;
}
