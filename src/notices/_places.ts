/**
 * Notices of licenses whose places for machines have all been taken for an hour. The statement that takes the last free place
 * notes the time (`take_place`), by the clock of the database, which is the clock of the places. A license with one place is full
 * from its first machine on: that is worth a notice only if a further machine was refused.
 */
import type { Fragment, Sql } from "../database/mod.ts";
import { isTaken } from "../licensing/machines/mod.ts";
import { isNew, keyOf, wantsNotices } from "./_conditions.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";
import { makeCtes } from "./_make.ts";
import { textOf } from "./_text_of.ts";
import { casesOfUse, withdraw, word } from "./_withdraw.ts";

const KIND = "places_full";

/** Makes the notices of full licenses, and withdraws those of licenses that have a free place again. */
export async function noticeFullPlaces(context: NoticeContext): Promise<void> {
  await inBatches(
    context,
    {},
    (sql, seen, now) => sql`
      with looked as materialized (
        select license_id, since, refused_at from full_places
         where (since, license_id) > (${seen.at}::text::timestamptz, ${seen.uuid}::uuid)
           and since <= statement_timestamp() - interval '1 hour'
         order by since, license_id limit ${BATCH_ROWS}
      ),
      staged as materialized (
        select l.id::text as subject, ${textOf(sql, sql`looked.since`)} as occasion, 0 as stage, l.id as license_id,
               ${keyOf(sql)} as key_id, looked.since as true_since,
               jsonb_strip_nulls(jsonb_build_object('places', l.max_machines, 'full_since', ${textOf(sql, sql`looked.since`)},
                                                    'refused_at', ${textOf(sql, sql`looked.refused_at`)})) as facts
          from looked join licenses l on l.id = looked.license_id
         where (l.max_machines > 1 or looked.refused_at is not null) and l.expires_at > ${now}::timestamptz and ${wantsNotices(sql)}
      ),
      -- The places are counted last, because most licenses that are full have had their notice.
      fresh as materialized (select * from staged where key_id is not null and ${isNew(sql, KIND, sql`staged`)}),
      found as (
        select fresh.* from fresh join licenses l on l.id = fresh.license_id where ${takenPlaces(sql)} >= l.max_machines
      ),
      ${makeCtes(sql, { kind: KIND, now })}
      select since::text as at, license_id as uuid from looked order by since desc, license_id desc limit 1`,
  );
  await withdraw(context, { kind: KIND, why: whyWithdrawn });
}

/** Counts the places of the license `l` that are taken, as SQL. */
function takenPlaces(sql: Sql): Fragment {
  return sql`(select count(*) from machines m where m.license_id = l.id and ${isTaken(sql)})`;
}

function whyWithdrawn(sql: Sql, now: Date): Fragment {
  return sql`
    case when not exists (select from full_places f where f.license_id = l.id and ${textOf(sql, sql`f.since`)} = n.occasion)
              or l.max_machines is null or ${takenPlaces(sql)} < l.max_machines then ${word(sql, "place_free")}
         ${casesOfUse(sql, now)}
    end`;
}
