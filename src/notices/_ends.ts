/**
 * Notices of the ends of licenses and of their updates. Of several days before an end only the nearest has a notice, and after
 * the end there is another one. Days before a license was made, or before its term began, have none.
 */
import { DAY_MS } from "../base/calendar.ts";
import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { isUnstartedSql } from "../licensing/mod.ts";
import { isNew, keyOf, wantsNotices } from "./_conditions.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";
import { makeCtes } from "./_make.ts";
import { textOf } from "./_text_of.ts";
import { casesOfLicense, withdraw, word } from "./_withdraw.ts";
import { ENDED_NOTED_DAYS, type NoticeKind } from "./kinds.ts";
import type { NoticeSettings } from "./settings.ts";

interface End {
  readonly kind: NoticeKind;
  /** The end of the license `l`. */
  readonly endOf: (sql: Sql) => Fragment;
  /** Whether the end of the license `l` matters. */
  readonly matters: (sql: Sql, now: Date) => Fragment;
}

const LICENSE_END: End = {
  kind: "license_end",
  endOf: (sql) => sql`l.expires_at`,
  matters: (sql, now) => sql`not ${isWaitingSql(sql, now)}`,
};

/** Updates that end with the license or later need no notice: that of the license says enough. */
const UPDATES_END: End = {
  kind: "updates_end",
  endOf: (sql) => sql`l.updates_until`,
  matters: (sql, now) => sql`l.updates_until < l.expires_at and l.expires_at > ${now}::timestamptz`,
};

/** Returns the condition, as SQL, that nobody knows the end of the license `l` yet, because its term waits for its first use. */
function isWaitingSql(sql: Sql, now: Date): Fragment {
  return sql`(${isUnstartedSql(sql)} and l.latest_start > ${now}::timestamptz)`;
}

/** Makes the notices of ends, and withdraws those that are not true any more. */
export async function noticeEnds(context: NoticeContext, settings: NoticeSettings): Promise<void> {
  for (const end of [LICENSE_END, UPDATES_END]) {
    await makeEnds(context, end, settings);
    await withdraw(context, { kind: end.kind, why: (sql, now) => whyWithdrawn(sql, end, now) });
  }
}

/** Looks at every license with an end that is near, in the order of the ends. */
async function makeEnds(
  context: NoticeContext,
  { kind, endOf, matters }: End,
  { days }: NoticeSettings,
): Promise<void> {
  const now = context.clock.now();
  const latest = new Date(now.getTime() + (days[0] ?? 0) * DAY_MS);
  await inBatches(
    context,
    { since: longAgo(now) },
    (sql, seen, now) => sql`
      with looked as materialized (
        select id, ${endOf(sql)} as ends_at from licenses l
         where (${endOf(sql)}, id) > (${seen.at}::text::timestamptz, ${seen.uuid}::uuid)
           and ${endOf(sql)} <= ${latest}::timestamptz
         order by ${endOf(sql)}, id limit ${BATCH_ROWS}
      ),
      staged as materialized (
        select l.id::text as subject, ${textOf(sql, sql`looked.ends_at`)} as occasion, -stage.days as stage,
               l.id as license_id, ${keyOf(sql)} as key_id, stage.since as true_since,
               jsonb_build_object('ends_at', ${textOf(sql, sql`looked.ends_at`)}, 'days', stage.days) as facts
          from looked join licenses l using (id)
               cross join lateral (
                 select days, since
                   from unnest(${toTextArray([0, ...days])}::integer[]) as days,
                        lateral (select looked.ends_at - days * interval '24 hours' as since) as begins
                  where since <= ${now}::timestamptz and (since >= greatest(l.created_at, l.started_at) or days = 0)
                  order by days limit 1) as stage
         where ${matters(sql, now)} and ${wantsNotices(sql)}
      ),
      found as (select * from staged where key_id is not null and ${isNew(sql, kind, sql`staged`)}),
      ${makeCtes(sql, { kind, now })}
      select ends_at::text as at, id as uuid from looked order by ends_at desc, id desc limit 1`,
  );
}

/** Returns the instant before which an end has no notice any more. */
function longAgo(now: Date): Date {
  return new Date(now.getTime() - ENDED_NOTED_DAYS * DAY_MS);
}

function whyWithdrawn(sql: Sql, { endOf, matters }: End, now: Date): Fragment {
  return sql`
    case when ${textOf(sql, endOf(sql))} is distinct from n.occasion then ${word(sql, "other_end")}
         when ${endOf(sql)} < ${longAgo(now)}::timestamptz then ${word(sql, "long_ended")}
         ${casesOfLicense(sql)}
         when not (${matters(sql, now)})
              then case when l.expires_at <= ${now}::timestamptz then ${word(sql, "license_ended")} else ${word(sql, "other_end")} end
    end`;
}
