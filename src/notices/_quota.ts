/** Notices of licenses that have used a share of the quota of the month. */
import { monthOf } from "../base/calendar.ts";
import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { effectiveLimit } from "../licensing/mod.ts";
import { isNew, keyOf, wantsNotices } from "./_conditions.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";
import { makeCtes } from "./_make.ts";
import { casesOfUse, withdraw, word } from "./_withdraw.ts";
import type { NoticeSettings } from "./settings.ts";

const KIND = "quota_used";

/** Makes the notices of quotas of the present month, and withdraws those that are not true any more. */
export async function noticeQuotas(context: NoticeContext, settings: NoticeSettings): Promise<void> {
  await makeQuotas(context, settings);
  await withdraw(context, { kind: KIND, why: whyWithdrawn });
}

/** Looks at every license that was used in the month. */
async function makeQuotas(context: NoticeContext, { shares }: NoticeSettings): Promise<void> {
  await inBatches(context, {}, (sql, seen, now) => {
    const { firstDay, resetsAt } = monthOf(now.getTime());
    return sql`
      with looked as materialized (
        select license_id, used, by_day from usage
         where month = ${firstDay}::date and license_id > ${seen.uuid}::uuid
         order by license_id limit ${BATCH_ROWS}
      ),
      limited as materialized (
        select l.id, looked.used, looked.by_day, ${effectiveLimit(sql)} as "limit", ${keyOf(sql)} as key_id
          from looked join licenses l on l.id = looked.license_id
         where ${effectiveLimit(sql)} > 0
           and looked.used * 100.0 >= ${effectiveLimit(sql)} * ${shares[0] ?? 100}::integer
           and l.expires_at > ${now}::timestamptz and ${wantsNotices(sql)}
      ),
      staged as materialized (
        select id::text as subject, ${occasionOf(sql, firstDay, sql`"limit"`)} as occasion,
               share as stage, id as license_id, key_id,
               (${firstDay}::date + coalesce(passed.day - 1, 0)::integer)::timestamp at time zone 'UTC' as true_since,
               jsonb_build_object('month', left(${firstDay}::text, 7), 'percent', share, 'used', used, 'limit', "limit",
                                  'resets_at', ${resetsAt}::text) as facts
          from limited
               cross join lateral (
                 select max(share) as share from unnest(${toTextArray(shares)}::integer[]) as share
                  where used * 100.0 >= "limit" * share) as highest
               -- The first day at whose end the share was used; imported use has no day, and counts from the first on.
               left join lateral (
                 select day
                   from (select day, sum(units) over (order by day) + used - (select sum(all_units) from unnest(by_day) as all_units)
                                  as total
                           from unnest(by_day) with ordinality as use (units, day)) as totals
                  where total * 100.0 >= "limit" * share
                  order by day limit 1) as passed on true
         where key_id is not null
      ),
      found as (select * from staged where ${isNew(sql, KIND, sql`staged`)}),
      ${makeCtes(sql, { kind: KIND, now })}
      select license_id as uuid from looked order by license_id desc limit 1`;
  });
}

/** A raised limit is another occasion: whoever marked a notice as done hears of the new limit again. */
export function occasionOf(sql: Sql, firstDay: string, limit: Fragment): Fragment {
  return sql`left(${firstDay}::text, 7) || ' of ' || ${limit}`;
}

/** Returns why a notice of the quota of a month is not true any more, as SQL, or null. `more` has further cases. */
export function whyQuotaWithdrawn(
  sql: Sql,
  { now, more }: { readonly now: Date; readonly more: Fragment },
): Fragment {
  const { firstDay } = monthOf(now.getTime());
  return sql`
    case when left(n.occasion, 7) < left(${firstDay}::text, 7) then ${word(sql, "month_over")}
         when split_part(n.occasion, ' of ', 2) is distinct from ${effectiveLimit(sql)}::text then ${word(sql, "other_limit")}
         ${more}
         ${casesOfUse(sql, now)}
    end`;
}

/** A clock that steps back into the month before withdraws nothing. */
function whyWithdrawn(sql: Sql, now: Date): Fragment {
  const { firstDay } = monthOf(now.getTime());
  const more = sql`
         when left(n.occasion, 7) = left(${firstDay}::text, 7)
              and coalesce((select u.used from usage u where u.license_id = l.id and u.month = ${firstDay}::date), 0) * 100.0
                  < ${effectiveLimit(sql)} * n.stage then ${word(sql, "below")}`;
  return whyQuotaWithdrawn(sql, { now, more });
}
