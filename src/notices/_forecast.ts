/**
 * Notices of licenses whose quota is used up before the month ends, if they go on as in the last seven days. The stored figures
 * say which: so there is one rule, and the whole use is read once for both. A quota that is used up has no finite day there.
 */
import { DAY_MS, monthOf } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { effectiveLimit } from "../licensing/mod.ts";
import { isNew, keyOf, wantsNotices } from "./_conditions.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";
import { makeCtes } from "./_make.ts";
import { occasionOf, whyQuotaWithdrawn } from "./_quota.ts";
import { withdraw, word } from "./_withdraw.ts";

const KIND = "quota_runs_out";

/** Figures that are older say nothing. */
const FRESH_MS = DAY_MS;

/** Makes the notices of quotas that run out, and withdraws those that are not true any more. */
export async function noticeForecasts(context: NoticeContext): Promise<void> {
  await makeForecasts(context);
  await withdraw(context, { kind: KIND, why: whyWithdrawn });
}

/** Returns the instant, as SQL, of the stored figure; null if it is of another month, too old, or of a clock that was ahead. */
function asOfFigure(sql: Sql, now: Date): Fragment {
  const since = new Date(Math.max(now.getTime() - FRESH_MS, monthOf(now.getTime()).beginsAtMs));
  return sql`
    (select as_of from figures where name = 'runs_out' and as_of >= ${since}::timestamptz and as_of <= ${now}::timestamptz)`;
}

async function makeForecasts(context: NoticeContext): Promise<void> {
  await inBatches(context, {}, (sql, seen, now) => {
    const { firstDay, resetsAt } = monthOf(now.getTime());
    return sql`
      with looked as materialized (
        select key_id, day from figure_runs_out
         where key_id > ${seen.uuid}::uuid and isfinite(day) order by key_id limit ${BATCH_ROWS}
      ),
      staged as materialized (
        select distinct on (l.id)
               l.id::text as subject, ${occasionOf(sql, firstDay, effectiveLimit(sql))} as occasion, 0 as stage,
               l.id as license_id, ${keyOf(sql)} as key_id, figure.as_of as true_since,
               jsonb_build_object('month', left(${firstDay}::text, 7), 'day', looked.day::text, 'used', u.used,
                                  'limit', ${effectiveLimit(sql)}, 'resets_at', ${resetsAt}::text) as facts
          from looked join keys k on k.id = looked.key_id join licenses l on l.id = k.license_id
               join usage u on u.license_id = l.id and u.month = ${firstDay}::date
               cross join (select ${asOfFigure(sql, now)} as as_of) as figure
         where figure.as_of is not null and u.used < ${effectiveLimit(sql)} and l.expires_at > ${now}::timestamptz
           and ${wantsNotices(sql)}
         order by l.id
      ),
      found as (select * from staged where key_id is not null and ${isNew(sql, KIND, sql`staged`)}),
      ${makeCtes(sql, { kind: KIND, now })}
      select key_id as uuid from looked order by key_id desc limit 1`;
  });
}

/** A day passes before a rate that fell withdraws a notice: so it does not come and go all day. */
function whyWithdrawn(sql: Sql, now: Date): Fragment {
  const { firstDay } = monthOf(now.getTime());
  const used = sql`
    (select u.used from usage u where u.license_id = l.id and u.month = ${firstDay}::date)`;
  const more = sql`
         when ${used} >= ${effectiveLimit(sql)} then ${word(sql, "used_up")}
         when n.made_at <= ${new Date(now.getTime() - DAY_MS)}::timestamptz and ${asOfFigure(sql, now)} is not null
              and not exists (select from figure_runs_out f join keys k on k.id = f.key_id
                               where k.license_id = l.id and isfinite(f.day))
              then ${word(sql, "lasts")}`;
  return whyQuotaWithdrawn(sql, { now, more });
}
