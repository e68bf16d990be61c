/**
 * The room for texts of events: what one license, and all licenses together, may store in a UTC day. `metadata`,
 * `error_message` and a long `model_name` are texts. An event beyond the room is stored and counted without them.
 *
 * A license stores the texts of its first events of the day, up to the first event whose texts do not fit; no later texts are
 * stored until the day ends. Its row is locked while a batch is added, so its bound is exact. The texts of the
 * installation are counted in parts, whose sum is read without a lock: batches that commit at the same moment can exceed that
 * bound, each by its own size. Sizes are those of the stored values, before PostgreSQL compresses them.
 *
 * The parts of the statement lock rows in one order: `usage`, `event_texts`, `installation_texts`, `claims`. So two processes
 * never wait for each other.
 */
import { DAY_MS } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import type { UsageEvent } from "./event.ts";

/** How many bytes of texts may be stored in a UTC day. */
export interface TextBounds {
  readonly licenseBytes: number;
  readonly installationBytes: number;
}

/** A model name up to this size is no more than the rest of its row: it is always stored, and not counted. */
const SHORT_NAME_BYTES = 64;
const MOST_BYTES_A_CHARACTER = 3;

/** Tells whether an event has texts that need room. Most events have none, and their commits are cheaper. */
export function hasTexts({ metadata, errorMessage, modelName }: UsageEvent): boolean {
  return metadata !== null || errorMessage !== null || isLong(modelName);
}

function isLong(name: string | null): boolean {
  if (name === null || name.length * MOST_BYTES_A_CHARACTER <= SHORT_NAME_BYTES) return false;
  return Buffer.byteLength(name) > SHORT_NAME_BYTES;
}

/**
 * Returns the CTEs that take room for the texts of the events in `accepted`: `left_out` has the positions of the events whose
 * texts do not fit, and `marked` has the accepted events, each with whether its texts are left out.
 */
export function textRoomCtes(
  sql: Sql,
  { licenseBytes, installationBytes }: TextBounds,
  receivedAtMs: number,
): Fragment {
  const at = sql`${new Date(receivedAtMs)}::timestamptz`;
  const day = dayOf(sql, receivedAtMs);
  // A row of the next day is of another process, so this batch is late: it counts in that day. A day that lies further ahead
  // is from a wrong clock.
  const goesOn = (row: string) => sql.unsafe(`${row}.day between excluded.day and excluded.day + 1`);
  const text = (bytes: number) => sql`${bytes}::bigint`;
  return sql`
      whole as (
        select coalesce(sum(bytes), 0) < ${text(installationBytes)} as has_room
          from installation_texts where ${isOfDay(sql, day)}
      ),
      sized as (
        -- The tally comes first, so that the rows of usage are locked before those of event_texts.
        select position, license_id,
               coalesce(pg_column_size(metadata), 0) + coalesce(octet_length(error_message), 0)
                 + case when ${isLongInSql(sql)} then octet_length(model_name) else 0 end as bytes
          from tally cross join accepted
      ),
      texts as (
        select position, license_id, bytes,
               sum(bytes) over (partition by license_id order by position) as upto,
               sum(bytes) over (partition by license_id) as of_batch
          from sized where bytes > 0
      ),
      room as (
        insert into event_texts as t (license_id, day, bytes, left_out_at)
        select license_id, ${day}, case when has_room then of_batch else 0 end,
               case when not has_room or of_batch > ${text(licenseBytes)} then ${at} end
          from (select distinct license_id, of_batch from texts) as texts cross join whole
         order by license_id
        on conflict (license_id) do update
          set day = case when ${goesOn("t")} then t.day else excluded.day end,
              bytes = case when ${goesOn("t")} then t.bytes else 0 end + excluded.bytes,
              left_out_at = case
                when ${goesOn("t")} and t.left_out_at is not null then t.left_out_at
                when excluded.left_out_at is not null
                  or (${goesOn("t")} and t.bytes + excluded.bytes > ${text(licenseBytes)}) then ${at}
              end
        returning license_id, bytes as after
      ),
      left_out as (
        select position
          from texts join room using (license_id) cross join whole
         where not has_room or after - of_batch + upto > ${text(licenseBytes)}
      ),
      installation as (
        insert into installation_texts as i (part, day, bytes)
        select pg_backend_pid() % 16, ${day}, sum(bytes)
          from texts where position not in (select position from left_out)
        having sum(bytes) > 0
        on conflict (part) do update
          set day = case when ${goesOn("i")} then i.day else excluded.day end,
              bytes = case when ${goesOn("i")} then i.bytes else 0 end + excluded.bytes
      ),
      marked as (
        select *, position in (select position from left_out) as truncated from accepted
      ),`;
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

/** Returns the condition that a row counts on the day, as SQL. */
export function isOfDay(sql: Sql, day: Fragment): Fragment {
  return sql`day between ${day} and ${day} + 1`;
}
