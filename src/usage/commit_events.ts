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
import type { UsageEvent } from "./event.ts";

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
  /** What that event means; null where the claim is of a version that kept only `eventHash`. */
  readonly digest: string | null;
  readonly eventHash: string | null;
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
 * claim is known. Stays one long function, because it is one statement.
 */
export async function commitEvents(
  database: Database,
  events: readonly UsageEvent[],
  { processUuid, deadlineMs }: CommitOptions,
): Promise<CommittedBatch> {
  const receivedAtMs = events[0]?.receivedAtMs ?? 0;
  const month = monthOf(receivedAtMs).firstDay;
  const day = new Date(receivedAtMs).getUTCDate();
  const hasClaims = events.some((event) => event.claim !== null);
  const [row] = await database.query<Row>(
    (sql) => sql`
      with ${hasClaims ? claimedParts(sql, events) : unclaimedParts(sql, events)},
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
          set granted = ${fairShare(sql)},
              used = u.used + ${fairShare(sql)},
              by_day[${day}::integer] = u.by_day[${day}::integer] + ${fairShare(sql)},
              limited_to = excluded.limited_to
        returning license_id, granted, used
      ),
      tally as (
        select array_agg(license_id) as licenses, array_agg(granted) as granted, array_agg(used) as used,
               coalesce(sum(granted), 0) as units
          from granted
      ),
      ${hasClaims ? acceptedOfClaimed(sql) : acceptedOfUnclaimed(sql)},
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
        select ${processUuid}::uuid, ${month}::date, licenses, used from tally where units > 0
      )
      select to_json(licenses) as licenses, to_json(granted) as granted, to_json(used) as used,
             ${hasClaims ? knownListed(sql) : sql`null`} as known
        from tally`,
    { deadlineMs },
  );
  const { licenses, granted, used, known } = row ?? NOTHING;
  return {
    grants: (licenses ?? []).map((licenseUuid, index) => ({
      licenseUuid,
      granted: granted?.[index] ?? 0,
      used: used?.[index] ?? 0,
    })),
    known: (known ?? []).map(([index, eventUuid, stored, isDigest]) => ({
      index,
      eventUuid,
      digest: isDigest ? stored : null,
      eventHash: isDigest ? null : stored,
    })),
  };
}

/** The grants as three lists, which is cheaper than one of objects; null where there are none. */
interface Row {
  readonly licenses: readonly string[] | null;
  readonly granted: readonly number[] | null;
  readonly used: readonly number[] | null;
  readonly known:
    | readonly (readonly [index: number, eventUuid: string, stored: string, isDigest: boolean])[]
    | null;
}

const NOTHING: Row = { licenses: null, granted: null, used: null, known: null };

/**
 * What a license is given of the units it wants, where its row is there: as SQL for the upsert's update branch.
 * The limit is the one that `capped` has read, since to look the license up again cost 1 µs each.
 */
function fairShare(sql: Sql): Fragment {
  const left = `coalesce(excluded.limited_to, ${Number.MAX_SAFE_INTEGER}) - u.used`;
  return sql.unsafe(`least(excluded.granted, greatest(${left}, 0))`);
}

/**
 * One value of each event as the text of an array. A column of nulls is an empty array: `unnest` fills up what is
 * shorter than the others, and reads nothing for it.
 */
function column<Item>(
  items: readonly Item[],
  value: (item: Item) => string | number | boolean | null,
): string {
  const values = items.map(value);
  return values.some((one) => one !== null) ? toTextArray(values) : "{}";
}

/** The same of values that are always there and need no quotes in an array: identifiers, numbers and words. */
function plainColumn<Item>(items: readonly Item[], value: (item: Item) => string | number | boolean): string {
  return `{${items.map(value).join(",")}}`;
}

/**
 * The arrays that the part `event` is made of, in the order of {@linkcode EVENT_COLUMNS}. Each is a query of its
 * own, so that the planner does not see how long they are: it would plan anew each time, and take as long for
 * that as for the rest, because a plan for one event looks cheaper than one for any number.
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
 * The parts `event` and `wanted` where no event has a claim. Nothing is looked up, so the units that each
 * license wants, and which of them an event would use (`rank`), are counted here and not by the database.
 */
function unclaimedParts(sql: Sql, events: readonly UsageEvent[]): Fragment {
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
        ) as event (${sql.unsafe(EVENT_COLUMNS)}, rank)
      ),
      wanted as (
        select * from unnest(
          (select ${plainColumn([...units.keys()], (uuid) => uuid)}::uuid[]),
          (select ${plainColumn([...units.values()], (count) => count)}::bigint[])
        ) as wanted (license_id, units)
      )`;
}

/** The part `accepted`: only where a license was given less than it wanted are its events looked at. */
function acceptedOfUnclaimed(sql: Sql): Fragment {
  return sql`
      accepted as (
        select * from event
         where rank = 0
            or (select units from tally) = (select sum(units) from wanted)
            or rank <= (select granted from granted where granted.license_id = event.license_id)
      )`;
}

/**
 * The parts `event`, `known`, which are the events whose claim is known, `fresh`, which are all the others,
 * and `wanted`. The claims are looked up one by one: joined, they would be read as a whole whenever the
 * statement was planned while there were few. Those of earlier versions have the key in place of the license.
 */
function claimedParts(sql: Sql, events: readonly UsageEvent[]): Fragment {
  return sql`
      event as (
        select * from unnest(${eventArrays(sql, events)},
          (select ${column(events, ({ claim }) => claim?.hash ?? null)}::text[]),
          (select ${column(events, ({ claim }) => claim?.digest ?? null)}::text[])
        ) with ordinality as event (${sql.unsafe(EVENT_COLUMNS)}, claim, digest, position)
      ),
      known as (
        select position, c.event_id, encode(c.event_hash, 'hex') as event_hash, c.by_license
          from event cross join lateral (
            select event_id, event_hash, by_license from claims
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

function acceptedOfClaimed(sql: Sql): Fragment {
  return sql`
      accepted as (
        select * from fresh
         where event_type <> 'inference'
            or (select units from tally) = (select sum(units) from wanted)
            or rank <= (select granted from granted where granted.license_id = fresh.license_id)
      )`;
}

/** The part that writes the claims of the accepted events, in the order of their key. */
function claimsWritten(sql: Sql): Fragment {
  return sql`
      claims_written as (
        insert into claims (key_id, by_license, claim, event_hash, event_id, claimed_at)
        select license_id, true, decode(claim, 'hex'), decode(digest, 'hex'), id, to_timestamp(received_ms / 1000)
          from accepted
         where claim is not null
         order by license_id, claim
      ),`;
}

function knownListed(sql: Sql): Fragment {
  return sql`(select json_agg(json_build_array(position - 1, event_id, event_hash, by_license)) from known)`;
}
