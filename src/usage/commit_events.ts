/**
 * The one statement that commits events: it grants quota, stores the granted events, and returns how many these are.
 *
 * The grant is an upsert on a locked row that adds `least(wanted, the rest of the limit)`, so no number of requests or
 * processes exceeds the limit. Its insert branch has the same bound as its update branch, because a month's first batch
 * can ask for too much as well. The parts of one statement do not see each other's writes. So the row holds the last
 * grant, and the part that stores the events reads it there. Rows are locked in the order of their licenses, so two
 * processes never wait for each other.
 *
 * An event whose claim (its `Idempotency-Key`) is known is neither granted nor stored again. A claim is written in the
 * same statement as its event: if the quota refuses the event, no claim is written. If two processes send the same
 * claim at the same moment, the later statement violates the constraint `claims_pkey` and is rolled back. The batch is
 * sent again; then the claim is known.
 */
import { monthOf } from "../base/calendar.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { effectiveLimit } from "../licensing/mod.ts";
import { hasTexts, storedTexts, type TextBounds, textRoomCtes } from "./_text_room.ts";
import { chargedAtMs, type UsageEvent } from "./event.ts";
import { grantedUnits } from "./granted_units.ts";

export interface Grant {
  readonly licenseUuid: string;
  /** The units that this commit granted, of the units that its events asked for. */
  readonly granted: number;
  /** The units used in the month after this commit. */
  readonly used: number;
}

/** An event whose claim was known: the claim was stored before, with another event. */
export interface KnownEvent {
  /** The index of the event in the batch, from 0. */
  readonly index: number;
  /** The event that the claim stands for. */
  readonly eventUuid: string;
  /** The digest of that event; null if the claim is from a version that stored only `eventHash`. */
  readonly digest: string | null;
  /** The time of that event; null if it was sent alone. */
  readonly occurredAtMs: number | null;
  readonly eventHash: string | null;
  readonly isTruncated: boolean;
  /** The time whose month and day were charged. */
  readonly chargedAtMs: number;
  /** The use of that month, if another event of this statement has a time of its own; otherwise null. */
  readonly usedThen: number | null;
}

export interface CommittedBatch {
  /** The grants of the licenses that asked for units. */
  readonly grants: readonly Grant[];
  readonly known: readonly KnownEvent[];
  /** The indexes of the events that were stored without their texts. */
  readonly truncated: readonly number[];
  /**
   * The use of the month before this commit, by license, if events have a time of their own: their answers name it also if
   * nothing was granted.
   */
  readonly usedBefore: ReadonlyMap<string, number>;
}

interface CommitOptions {
  readonly processUuid: string;
  readonly textBounds: TextBounds;
  readonly deadlineMs: number;
}

/**
 * Commits events that were all received on one day and are all charged to one day (UTC), which may be an earlier one: its
 * month and this day are charged. An event whose claim is known is not stored again. Of the
 * other `inference` events of a license, the first ones in the given order are stored: as many as units were granted.
 * All other events are stored, without their texts if these have no room. One long function, because it is one statement.
 */
export async function commitEvents(
  database: Database,
  events: readonly UsageEvent[],
  { processUuid, textBounds, deadlineMs }: CommitOptions,
): Promise<CommittedBatch> {
  const receivedAtMs = events[0]?.receivedAtMs ?? 0;
  const chargedMs = events[0] === undefined ? 0 : chargedAtMs(events[0]);
  const month = monthOf(chargedMs).firstDay;
  const day = new Date(chargedMs).getUTCDate();
  const hasTimes = events.some((event) => event.occurredAtMs !== null);
  const hasClaims = events.some((event) => event.claim !== null);
  const needsRoom = events.some(hasTexts);
  const [row] = await database.query<Row>(
    (sql) => sql`
      with ${hasClaims ? ctesWithClaims(sql, events, hasTimes) : ctesWithoutClaims(sql, events, needsRoom)},
      capped as (
        select license_id, least(units, limited_to) as units, limited_to
          from (
            select license_id, units, ${effectiveLimit(sql)} as limited_to
              from wanted join licenses l on l.id = license_id
          ) as asked
      ),
      granted as (
        insert into usage as u (license_id, month, used, granted, by_day, limited_to)
        select license_id, ${month}::date, units, units,
               (select array_fill(0::bigint, array[${day - 1}::integer])) || units
                 || (select array_fill(0::bigint, array[${31 - day}::integer])),
               limited_to
          from capped
         order by license_id
        on conflict (license_id, month) do update
          set granted = ${grantedUnits(sql)},
              used = u.used + ${grantedUnits(sql)},
              by_day[${day}::integer] = u.by_day[${day}::integer] + ${grantedUnits(sql)},
              limited_to = excluded.limited_to
        returning license_id, granted, used
      ),
      tally as (
        select array_agg(license_id) as licenses, array_agg(granted) as granted, array_agg(used) as used,
               coalesce(sum(granted), 0) as units
          from granted
      ),
      -- Ranks are compared only if a license was granted fewer units than its events ask for.
      accepted as (
        select * from ${hasClaims ? sql`fresh` : sql`event`} as event
         where event_type <> 'inference'
            or (select units from tally) = (select sum(units) from wanted)
            or rank <= (select granted from granted where granted.license_id = event.license_id)
      ),
      ${needsRoom ? textRoomCtes(sql, textBounds, receivedAtMs) : sql``}
      stored as (
        insert into events (id, received_at, key_id, license_id, event_type, inference_type, duration_ms, success,
                            ${hasTimes ? sql`occurred_at,` : sql``} model_name, error_message, metadata)
        select id, to_timestamp(received_ms / 1000), key_id, license_id, event_type, inference_type, duration_ms, success,
               ${hasTimes ? sql`to_timestamp(occurred_ms / 1000),` : sql``}
               ${needsRoom ? storedTexts(sql) : sql`model_name, error_message, metadata`}
          from ${needsRoom ? sql`marked` : sql`accepted`}
      ),
      ${hasClaims ? claimsWrittenCte(sql, { needsRoom, hasTimes }) : sql``}
      noted as (
        insert into usage_changes (writer, month, license_ids, used)
        select ${processUuid}::uuid, ${month}::date, licenses, used from tally where units > 0
      )
      select to_json(licenses) as licenses, to_json(granted) as granted, to_json(used) as used,
             ${hasClaims ? knownAsJson(sql, hasTimes) : sql`null`} as known,
             ${needsRoom ? sql`(select json_agg(position - 1) from left_out)` : sql`null`} as truncated,
             ${hasTimes ? usedBeforeAsJson(sql, month) : sql`null`} as "usedBefore"
        from tally`,
    { deadlineMs },
  );
  const { licenses, granted, used, known, truncated, usedBefore } = row ?? NOTHING;
  return {
    grants: (licenses ?? []).map((licenseUuid, index) => ({
      licenseUuid,
      granted: granted?.[index] ?? 0,
      used: used?.[index] ?? 0,
    })),
    known: (known ?? []).map(
      ([index, eventUuid, stored, isDigest, isTruncated, occurredAtMs, chargedAtMs, usedThen]) => ({
        index,
        eventUuid,
        digest: isDigest ? stored : null,
        occurredAtMs,
        eventHash: isDigest ? null : stored,
        isTruncated,
        chargedAtMs,
        usedThen,
      }),
    ),
    truncated: truncated ?? [],
    usedBefore: new Map(usedBefore ?? []),
  };
}

/** The grants as three lists, which is cheaper than one list of objects; null if there are no grants. */
interface Row {
  readonly licenses: readonly string[] | null;
  readonly granted: readonly number[] | null;
  readonly used: readonly number[] | null;
  readonly known:
    | readonly (readonly [
        index: number,
        eventUuid: string,
        stored: string,
        isDigest: boolean,
        isTruncated: boolean,
        occurredAtMs: number | null,
        chargedAtMs: number,
        usedThen: number | null,
      ])[]
    | null;
  readonly truncated: readonly number[] | null;
  readonly usedBefore: readonly (readonly [licenseUuid: string, used: number])[] | null;
}

const NOTHING: Row = {
  licenses: null,
  granted: null,
  used: null,
  known: null,
  truncated: null,
  usedBefore: null,
};

/**
 * Returns one value of each event as the text of an array. If all values are null, the array is empty: `unnest` fills
 * a shorter array up with nulls, and has nothing to read.
 */
function column<Item>(
  items: readonly Item[],
  value: (item: Item) => string | number | boolean | null,
): string {
  const values = items.map(value);
  return values.some((one) => one !== null) ? toTextArray(values) : "{}";
}

/** Does the same as `column` for values that are never null and need no quotes: identifiers, numbers and words. */
function plainColumn<Item>(items: readonly Item[], value: (item: Item) => string | number | boolean): string {
  return `{${items.map(value).join(",")}}`;
}

/**
 * Returns the arrays of the CTE `event`, in the order of {@linkcode EVENT_COLUMNS}. Each array is a subquery, so that
 * the planner does not see its length. Otherwise a plan for one event would look cheaper than a plan for any number,
 * so PostgreSQL would plan every statement anew, which takes as long as the rest of the statement.
 */
function eventArrays(sql: Sql, events: readonly UsageEvent[]): Fragment {
  return sql`
          (select ${plainColumn(events, (event) => event.uuid)}::uuid[]),
          (select ${plainColumn(events, (event) => event.receivedAtMs)}::double precision[]),
          (select ${plainColumn(events, (event) => event.keyUuid)}::uuid[]),
          (select ${plainColumn(events, (event) => event.licenseUuid)}::uuid[]),
          (select ${plainColumn(events, (event) => event.type)}::text[]),
          (select ${column(events, (event) => event.modelName)}::text[]),
          (select ${column(events, (event) => event.inferenceType)}::text[]),
          (select ${column(events, (event) => event.durationMs)}::double precision[]),
          (select ${plainColumn(events, (event) => event.success)}::boolean[]),
          (select ${column(events, (event) => event.errorMessage)}::text[]),
          (select ${column(events, (event) => event.metadata)}::jsonb[])`;
}

const EVENT_COLUMNS =
  "id, received_ms, key_id, license_id, event_type, model_name, inference_type, duration_ms, success, " +
  "error_message, metadata";

/**
 * Returns the CTEs `event` and `wanted` for events without claims. No claim is looked up, so two numbers are counted
 * here and not by the database: the units that the events of each license ask for, and the number of the unit that an
 * event would use (`rank`). Events are numbered (`position`) only if texts need room.
 */
function ctesWithoutClaims(sql: Sql, events: readonly UsageEvent[], needsRoom: boolean): Fragment {
  const units = new Map<string, number>();
  const ranks = events.map(({ type, licenseUuid }) => {
    if (type !== "inference") return 0;
    const rank = (units.get(licenseUuid) ?? 0) + 1;
    units.set(licenseUuid, rank);
    return rank;
  });
  return sql`
      event as (
        select * from unnest(${eventArrays(sql, events)},
          (select ${plainColumn(ranks, (rank) => rank)}::bigint[])
        ) ${needsRoom ? sql`with ordinality` : sql``}
          as event (${sql.unsafe(EVENT_COLUMNS)}, rank${needsRoom ? sql`, position` : sql``})
      ),
      wanted as (
        select * from unnest(
          (select ${plainColumn([...units.keys()], (uuid) => uuid)}::uuid[]),
          (select ${plainColumn([...units.values()], (count) => count)}::bigint[])
        ) as wanted (license_id, units)
      )`;
}

/**
 * Returns the CTEs `event`, `known` (the events whose claim is known), `fresh` (all other events) and `wanted`.
 * Claims are looked up one by one: a join would read the whole table if the statement was planned while the table
 * had few rows. Claims of earlier versions contain the key in place of the license. Only events of batches have times
 * (`hasTimes`), and each has a claim.
 */
function ctesWithClaims(sql: Sql, events: readonly UsageEvent[], hasTimes: boolean): Fragment {
  const times = hasTimes ? timeArrays(sql, events) : sql``;
  return sql`
      event as (
        select * from unnest(${eventArrays(sql, events)},
          (select ${column(events, ({ claim }) => claim?.hash ?? null)}::text[]),
          (select ${column(events, ({ claim }) => claim?.digest ?? null)}::text[])${times}
        ) with ordinality as event (${sql.unsafe(EVENT_COLUMNS)}, claim, digest,
                                    ${hasTimes ? sql`occurred_ms, claimed_ms,` : sql``} position)
      ),
      known as (
        select position, c.event_id, encode(c.event_hash, 'hex') as event_hash, c.by_license, c.truncated,
               c.occurred_at, least(c.occurred_at, c.claimed_at) as charged_at, event.license_id
          from event cross join lateral (
            select event_id, event_hash, by_license, truncated, occurred_at, claimed_at from claims
             where claims.key_id = any(array[event.license_id, event.key_id])
               and claims.claim = decode(event.claim, 'hex')
             limit 1
          ) as c
         where event.claim is not null
      ),
      fresh as (
        select *, row_number() over (partition by license_id, event_type = 'inference' order by position) as rank
          from event where position not in (select position from known)
      ),
      wanted as (
        select license_id, count(*) as units from fresh where event_type = 'inference' group by license_id
      )`;
}

/** Returns the CTE that writes the claims of the accepted events, in the order of the primary key. */
function claimsWrittenCte(
  sql: Sql,
  { needsRoom, hasTimes }: { readonly needsRoom: boolean; readonly hasTimes: boolean },
): Fragment {
  return sql`
      claims_written as (
        insert into claims (key_id, by_license, claim, event_hash, event_id, claimed_at, truncated,
                            occurred_at)
        select license_id, true, decode(claim, 'hex'), decode(digest, 'hex'), id, to_timestamp(received_ms / 1000),
               ${needsRoom ? sql`truncated` : sql`false`},
               ${hasTimes ? sql`to_timestamp(claimed_ms / 1000)` : sql`null::timestamptz`}
          from ${needsRoom ? sql`marked` : sql`accepted`}
         where claim is not null
         order by license_id, claim
      ),`;
}

function knownAsJson(sql: Sql, hasTimes: boolean): Fragment {
  const usedThen = sql`(select used from usage where usage.license_id = known.license_id
                           and month = date_trunc('month', charged_at at time zone 'UTC')::date)`;
  return sql`
             (select json_agg(json_build_array(position - 1, event_id, event_hash, by_license, truncated,
                                               extract(epoch from occurred_at) * 1000,
                                               extract(epoch from charged_at) * 1000,
                                               ${hasTimes ? usedThen : sql`null`})) from known)`;
}

/** Returns the arrays with the time of each event and of its claim. They may differ: an event never lies ahead. */
function timeArrays(sql: Sql, events: readonly UsageEvent[]): Fragment {
  return sql`,
          (select ${column(events, ({ occurredAtMs }) => occurredAtMs)}::double precision[]),
          (select ${column(events, ({ claim }) => claim?.occurredAtMs ?? null)}::double precision[])`;
}

/** Returns the SQL that reads the use of the month before this statement, for each license of the events. */
function usedBeforeAsJson(sql: Sql, month: string): Fragment {
  return sql`
             (select json_agg(json_build_array(license_id, used)) from usage
               where usage.month = ${month}::date and license_id in (select license_id from event))`;
}
