/**
 * The bounds on the texts of events that are stored in a UTC day: one for each license, and one for all licenses together.
 * The texts of an event are its `metadata`, its `error_message`, and a `model_name` of more than 64 bytes. If they have no
 * room, the event is stored and counted without them.
 *
 * The first event of a license whose texts do not fit ends the license's room: also smaller texts of later events are left
 * out until the day ends. The row of the license is locked while a batch is added to it, so this bound is exact. The texts of
 * all licenses are counted in parts, and their sum is read without a lock: batches that commit at the same moment can exceed
 * that bound, each by its own size. A size is that of the stored value, before PostgreSQL compresses it.
 *
 * A row counts one day. The next batch of a later day begins the row anew. At midnight another process can begin the next day
 * first: a batch that comes later, but belongs to the day before, is then added to the next day. A row whose day lies further
 * ahead was written while a clock was wrong, so it is begun anew, too.
 *
 * The parts of a statement lock rows in one order: `usage`, `event_texts`, `claims`, `installation_texts`. So two processes
 * never wait for each other. PostgreSQL runs the parts that no other part reads last, from the last one to the first.
 */
import { DAY_MS } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import type { UsageEvent } from "./event.ts";

/** How many bytes of texts may be stored in a UTC day; 0 means none. */
export interface TextBounds {
  readonly licenseBytes: number;
  readonly installationBytes: number;
}

/** A model name up to this size takes less than the rest of its row: it is always stored, and not counted. */
const SHORT_NAME_BYTES = 64;
/** Of a UTF-16 code unit in UTF-8. */
const MOST_BYTES_A_UNIT = 3;

/** Tells whether an event has texts that need room. Most events have none, and their commits are cheaper. */
export function hasTexts({
  metadata,
  errorMessage,
  modelName,
}: Pick<UsageEvent, "metadata" | "errorMessage" | "modelName">): boolean {
  return metadata !== null || errorMessage !== null || isLong(modelName);
}

function isLong(name: string | null): boolean {
  if (name === null || name.length * MOST_BYTES_A_UNIT <= SHORT_NAME_BYTES) return false;
  return Buffer.byteLength(name) > SHORT_NAME_BYTES;
}

/**
 * Returns the CTEs that take room for the texts of the events in `accepted`: `left_out` has the positions of the events whose
 * texts do not fit, and `marked` has the accepted events, each with whether its texts are left out.
 */
export function textRoomCtes(sql: Sql, bounds: TextBounds, receivedAtMs: number): Fragment {
  return sql`
      -- The tally comes first, so that the rows of usage are locked before those of event_texts.
      ${sizeCtes(sql, sql`tally cross join accepted`)}
      ${installationRoomCte(sql, bounds, receivedAtMs)}
      license_room as (
        ${addToLicenses(sql, bounds, receivedAtMs, sql`installation_room`)}
        returning license_id, bytes as day_bytes
      ),
      ${markedCtes(sql, bounds)}
      installation_written as (${addToInstallation(sql, receivedAtMs, sql`texts`)}),`;
}

/**
 * Returns the same CTEs for the events of a report, which take seconds to store: the room is only read, so that clients of the
 * license do not wait meanwhile. {@linkcode textsWrittenCtes} takes it later. What clients add in between can exceed the bound
 * of the license, by no more than the texts of the report.
 */
export function laterTextRoomCtes(sql: Sql, bounds: TextBounds, receivedAtMs: number): Fragment {
  return sql`
      ${sizeCtes(sql, sql`accepted`)}
      ${installationRoomCte(sql, bounds, receivedAtMs)}
      license_room as (
        select license_id, batch_bytes + coalesce(
                 (select bytes from event_texts t
                   where t.license_id = batch.license_id and ${isOfDay(sql, dayOf(sql, receivedAtMs))}), 0) as day_bytes
          from (select distinct license_id, batch_bytes from texts) as batch
      ),
      ${markedCtes(sql, bounds)}`;
}

/** Returns the CTEs that take the room that {@linkcode laterTextRoomCtes} has read, after the CTE `tally`. */
export function textsWrittenCtes(sql: Sql, bounds: TextBounds, receivedAtMs: number): Fragment {
  return sql`
      license_written as (
        ${addToLicenses(sql, bounds, receivedAtMs, sql`installation_room cross join (select from tally) as counted`)}
        returning license_id
      ),
      installation_written as (
        ${addToInstallation(sql, receivedAtMs, sql`texts cross join (select count(*) from license_written) as added`)}
      ),`;
}

/** Returns the CTEs that measure the texts: `texts` has each accepted event with texts, its size and sums for its license. */
function sizeCtes(sql: Sql, from: Fragment): Fragment {
  return sql`
      sized as (
        select position, license_id,
               coalesce(pg_column_size(metadata), 0) + coalesce(octet_length(error_message), 0)
                 + case when ${isLongInSql(sql)} then octet_length(model_name) else 0 end as bytes
          from ${from}
      ),
      texts as (
        select position, license_id, bytes,
               sum(bytes) over (partition by license_id order by position) as bytes_so_far,
               sum(bytes) over (partition by license_id) as batch_bytes
          from sized where bytes > 0
      ),`;
}

function installationRoomCte(sql: Sql, { installationBytes }: TextBounds, receivedAtMs: number): Fragment {
  return sql`
      installation_room as (
        select coalesce(sum(bytes), 0) < ${installationBytes}::bigint as has_room
          from installation_texts where ${isOfDay(sql, dayOf(sql, receivedAtMs))}
      ),`;
}

/** Returns the CTEs `left_out` and `marked`, by the bytes of the day that `license_room` has for each license. */
function markedCtes(sql: Sql, { licenseBytes }: TextBounds): Fragment {
  return sql`
      left_out as (
        select position
          from texts join license_room using (license_id) cross join installation_room
         where not has_room or day_bytes - batch_bytes + bytes_so_far > ${licenseBytes}::bigint
      ),
      marked as (
        select *, position in (select position from left_out) as truncated from accepted
      ),`;
}

/** Returns the condition that a row counts the day of the batch, or the next one: then the batch is added to it, as SQL. */
function isCurrent(sql: Sql, row: "t" | "i"): Fragment {
  return sql.unsafe(`${row}.day between excluded.day and excluded.day + 1`);
}

/** Returns the upsert that adds the bytes of each license to its row, and locks it. `from` has `has_room`. */
function addToLicenses(
  sql: Sql,
  { licenseBytes }: TextBounds,
  receivedAtMs: number,
  from: Fragment,
): Fragment {
  const at = sql`${new Date(receivedAtMs)}::timestamptz`;
  const mostBytes = sql`${licenseBytes}::bigint`;
  return sql`
        insert into event_texts as t (license_id, day, bytes, left_out_at)
        select license_id, ${dayOf(sql, receivedAtMs)}, case when has_room then batch_bytes else 0 end,
               case when not has_room or batch_bytes > ${mostBytes} then ${at} end
          from (select distinct license_id, batch_bytes from texts) as texts cross join ${from}
         order by license_id
        on conflict (license_id) do update
          set day = case when ${isCurrent(sql, "t")} then t.day else excluded.day end,
              bytes = case when ${isCurrent(sql, "t")} then t.bytes else 0 end + excluded.bytes,
              left_out_at = case
                when ${isCurrent(sql, "t")} and t.left_out_at is not null then t.left_out_at
                when excluded.left_out_at is not null
                  or (${isCurrent(sql, "t")} and t.bytes + excluded.bytes > ${mostBytes}) then ${at}
              end`;
}

/** Returns the upsert that adds the bytes of the texts that are stored to those of the installation. */
function addToInstallation(sql: Sql, receivedAtMs: number, from: Fragment): Fragment {
  return sql`
        insert into installation_texts as i (part, day, bytes)
        select pg_backend_pid() % 16, ${dayOf(sql, receivedAtMs)}, sum(bytes)
          from ${from} where position not in (select position from left_out)
        having sum(bytes) > 0
        on conflict (part) do update
          set day = case when ${isCurrent(sql, "i")} then i.day else excluded.day end,
              bytes = case when ${isCurrent(sql, "i")} then i.bytes else 0 end + excluded.bytes`;
}

/** Returns the texts of an event in `marked` as they are stored, in the order `model_name`, `error_message`, `metadata`. */
export function storedTexts(sql: Sql): Fragment {
  return sql`
    case when not (truncated and ${isLongInSql(sql)}) then model_name end,
    case when not truncated then error_message end,
    case when not truncated then metadata end`;
}

function isLongInSql(sql: Sql): Fragment {
  return sql`coalesce(octet_length(model_name) > ${SHORT_NAME_BYTES}::integer, false)`;
}

/** Returns the UTC day of a time in Unix milliseconds, as SQL. */
export function dayOf(sql: Sql, nowMs: number): Fragment {
  return sql`${new Date(nowMs - (nowMs % DAY_MS)).toISOString().slice(0, 10)}::date`;
}

/** Returns the condition that a row counts the day, or the next one, which another process may have begun, as SQL. */
export function isOfDay(sql: Sql, day: Fragment): Fragment {
  return sql`day between ${day} and ${day} + 1`;
}
