/**
 * Notices of keys that are refused often: more than so many times in an hour, for whatever reason. While a notice is open, its key
 * has no other. After an operator has marked it as done, the next one is of a later day (UTC).
 */
import { DAY_MS } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { isNew, wantsNotices } from "./_conditions.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";
import { makeCtes } from "./_make.ts";
import { textOf } from "./_text_of.ts";
import { whyKeyWithdrawn, withdraw, word } from "./_withdraw.ts";
import type { NoticeSettings } from "./settings.ts";

const KIND = "refusals";

/** Makes the notices of keys that were refused often in the last day, and withdraws those of keys that are not any more. */
export async function noticeRefusals(
  context: NoticeContext,
  { refusalsAnHour }: NoticeSettings,
): Promise<void> {
  await inBatches(
    context,
    { since: new Date(context.clock.now().getTime() - DAY_MS) },
    (sql, seen, now) => sql`
      with looked as materialized (
        select hour, key_id, sum(count)::bigint as refused, (array_agg(code order by count desc, code))[1] as code
          from refused_hours
         where (hour, key_id) > (${seen.at}::text::timestamptz, ${seen.uuid}::uuid)
         group by hour, key_id
         order by hour, key_id limit ${BATCH_ROWS}
      ),
      staged as materialized (
        select distinct on (k.id, (hour at time zone 'UTC')::date)
               k.id::text as subject, (hour at time zone 'UTC')::date::text as occasion, 0 as stage, l.id as license_id,
               k.id as key_id, hour as true_since,
               jsonb_build_object('hour', ${textOf(sql, sql`hour`)}, 'refused', refused, 'code', code,
                                  'more_than', ${refusalsAnHour}::bigint) as facts
          from looked join keys k on k.id = looked.key_id join licenses l on l.id = k.license_id
         where refused > ${refusalsAnHour}::bigint and k.state <> 'revoked' and ${wantsNotices(sql)}
         order by k.id, (hour at time zone 'UTC')::date, hour
      ),
      found as (
        -- One of each key, of its last day.
        select distinct on (subject) * from staged
         where ${isNew(sql, KIND, sql`staged`)}
           and not exists (
                 select
                   from (select n.state, n.closed_at from notices n
                          where n.kind = ${KIND}::text and n.subject = staged.subject offset 0) as had
                  where had.state = 'open'
                     or had.state = 'done' and staged.occasion::date <= (had.closed_at at time zone 'UTC')::date)
         order by subject, occasion desc
      ),
      ${makeCtes(sql, { kind: KIND, now })}
      select hour::text as at, key_id as uuid from looked order by hour desc, key_id desc limit 1`,
  );
  await withdraw(context, { kind: KIND, why: whyWithdrawn });
}

/** By the number with which the notice was made: another process may have another one. */
function whyWithdrawn(sql: Sql, now: Date): Fragment {
  const more = sql`
         when not exists (
                select from refused_hours h
                 where h.key_id = n.key_id and h.hour > ${new Date(now.getTime() - DAY_MS)}::timestamptz
                 group by h.hour having sum(h.count) > (n.facts->>'more_than')::bigint) then ${word(sql, "stopped")}`;
  return whyKeyWithdrawn(sql, more);
}
