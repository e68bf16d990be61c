/** Conditions of the statements that make notices and withdraw them. */
import type { Fragment, Sql } from "../database/mod.ts";
import type { NoticeKind } from "./kinds.ts";

/**
 * Returns the condition, as SQL, that no notice of the occasion of `row` is open or done at its stage or at a higher one: a clock
 * that steps back a little makes no notice again.
 */
export function isNew(sql: Sql, kind: NoticeKind, row: Fragment): Fragment {
  return sql`
    not exists (
      select from notices n
       where n.kind = ${kind}::text and n.subject = ${row}.subject and n.occasion = ${row}.occasion
         and n.stage >= ${row}.stage and n.state in ('open', 'done')
      -- Keeps the planner from joining all notices of a day on which many licenses end: each row is looked up by the index.
      offset 0)`;
}

/** Returns the condition, as SQL, that neither the license `l` nor its account is muted. */
export function wantsNotices(sql: Sql): Fragment {
  return sql`
    -- With an offset, as in isNew: each row is looked up by the index.
    (not exists (select from muted_notices o where o.license_id = l.id offset 0)
     and not exists (select from muted_notices o where o.account_id = l.account_id offset 0))`;
}

/** Returns the newest key, as SQL, of the license `l` that is not revoked; null if there is none. */
export function keyOf(sql: Sql): Fragment {
  return sql`
    (select k.id from keys k where k.license_id = l.id and k.state <> 'revoked' order by k.id desc limit 1)`;
}
