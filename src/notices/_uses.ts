/**
 * Notices of keys whose use is a surprise: a silent key (see `SILENT_DAYS`) is used again, and a key that was rotated is still
 * used. The statement that writes the last use of keys notes the first of them.
 */
import { DAY_MS } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { isNew, wantsNotices } from "./_conditions.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";
import { makeCtes } from "./_make.ts";
import { textOf } from "./_text_of.ts";
import { whyKeyWithdrawn, withdraw, word } from "./_withdraw.ts";
import { UNUSED_DAYS, USE_NOTED_DAYS } from "./kinds.ts";

const SILENT = "silent_key_used";
const ROTATED = "rotated_key_used";

/** For so many hours after a rotation a use of the old key is no surprise: the customer has to be told of the new one. */
const HOURS_TO_CHANGE = 1;

/** Makes the notices of surprising uses, and withdraws those that tell nothing any more. */
export async function noticeUses(context: NoticeContext): Promise<void> {
  const since = new Date(context.clock.now().getTime() - USE_NOTED_DAYS * DAY_MS);
  await makeSilent(context, since);
  await makeRotated(context, since);
  await withdraw(context, { kind: SILENT, why: (sql) => whyKeyWithdrawn(sql, isLongAgo(sql, since)) });
  await withdraw(context, { kind: ROTATED, why: (sql, now) => whyKeyWithdrawn(sql, isUnused(sql, now)) });
}

async function makeSilent(context: NoticeContext, since: Date): Promise<void> {
  await inBatches(
    context,
    { since },
    (sql, seen, now) => sql`
      with looked as materialized (
        select key_id, silent_since, woke_at from key_wakings
         where (woke_at, key_id) > (${seen.at}::text::timestamptz, ${seen.uuid}::uuid)
         order by woke_at, key_id limit ${BATCH_ROWS}
      ),
      staged as materialized (
        select k.id::text as subject, ${textOf(sql, sql`looked.woke_at`)} as occasion, 0 as stage, l.id as license_id,
               k.id as key_id, looked.woke_at as true_since,
               jsonb_build_object('used_at', ${textOf(sql, sql`looked.woke_at`)},
                                  'silent_since', ${textOf(sql, sql`looked.silent_since`)}) as facts
          from looked join keys k on k.id = looked.key_id join licenses l on l.id = k.license_id
         where k.state <> 'revoked' and ${wantsNotices(sql)}
      ),
      found as (select * from staged where ${isNew(sql, SILENT, sql`staged`)}),
      ${makeCtes(sql, { kind: SILENT, now })}
      select woke_at::text as at, key_id as uuid from looked order by woke_at desc, key_id desc limit 1`,
  );
}

/** A rotated key has an end of its own. After that end its uses are refused, which the counts of refusals know. */
async function makeRotated(context: NoticeContext, since: Date): Promise<void> {
  await inBatches(
    context,
    { since },
    (sql, seen, now) => sql`
      with looked as materialized (
        select id, own_expires_at, last_used_at, replaced_by from keys
         where own_expires_at is not null and (own_expires_at, id) > (${seen.at}::text::timestamptz, ${seen.uuid}::uuid)
         order by own_expires_at, id limit ${BATCH_ROWS}
      ),
      used as materialized (
        select looked.*,
               ${lastUseOf(sql, sql`looked`)} as used_at
          from looked
      ),
      staged as materialized (
        select k.id::text as subject, 'rotated to ' || next.id as occasion, 0 as stage, l.id as license_id, k.id as key_id,
               used.used_at as true_since,
               jsonb_build_object('used_at', ${textOf(sql, sql`used.used_at`)}, 'ends_at', ${textOf(sql, sql`used.own_expires_at`)},
                                  'is_refused', used.used_at > used.own_expires_at) as facts
          from used join keys k on k.id = used.id join licenses l on l.id = k.license_id join keys next on next.id = used.replaced_by
         where used.used_at > next.created_at + ${HOURS_TO_CHANGE}::integer * interval '1 hour'
           and used.used_at >= ${unusedSince(now)}::timestamptz and k.state = 'active'
           and ${wantsNotices(sql)}
      ),
      found as (select * from staged where ${isNew(sql, ROTATED, sql`staged`)}),
      ${makeCtes(sql, { kind: ROTATED, now })}
      select own_expires_at::text as at, id as uuid from looked order by own_expires_at desc, id desc limit 1`,
  );
}

/** Returns when a rotated key was used last, as SQL, also if it was refused because it has ended. */
function lastUseOf(sql: Sql, key: Fragment): Fragment {
  return sql`
    greatest(${key}.last_used_at, (select max(r.last_at) from refusals r where r.key_id = ${key}.id and r.code = 'KEY_EXPIRED'))`;
}

function isLongAgo(sql: Sql, since: Date): Fragment {
  return sql`when n.true_since < ${since}::timestamptz then ${word(sql, "long_ago")}`;
}

function isUnused(sql: Sql, now: Date): Fragment {
  return sql`
    when (select ${lastUseOf(sql, sql`k`)} from keys k where k.id = n.key_id) < ${unusedSince(now)}::timestamptz then ${word(sql, "unused")}`;
}

function unusedSince(now: Date): Date {
  return new Date(now.getTime() - UNUSED_DAYS * DAY_MS);
}
