/**
 * The part of each statement that makes notices, and writes the rows of the audit log with them. Two processes that run it at once
 * make each notice once, because the constraint decides.
 */
import { auditCte, nameOfActor, UPKEEP } from "../audit/mod.ts";
import { newUuid } from "../base/ids.ts";
import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { auditColumns, idOf } from "./_audit_columns.ts";
import { BATCH_ROWS } from "./_in_batches.ts";
import type { NoticeKind } from "./kinds.ts";

interface Made {
  readonly kind: NoticeKind;
  readonly now: Date;
}

/**
 * Returns the CTEs that make the notices of the CTE `found`, which has the columns `subject`, `occasion`, `stage`, `license_id`,
 * `key_id`, `true_since` and `facts`; what begins later is not true yet. A notice that was withdrawn or replaced is open again; one
 * that is open or done stays as it is. `made` has a row for each notice that was made. Earlier stages of its occasion are replaced,
 * and the row of the audit log names the nearest of them.
 */
export function makeCtes(sql: Sql, { kind, now }: Made): Fragment {
  const ids = toTextArray(Array.from({ length: BATCH_ROWS }, newUuid));
  return sql`
    named as (
      select row.*, id.value as id
        from (select *, row_number() over (order by subject, occasion, stage) as nth
                from found where true_since <= ${now}::timestamptz) as row
        join unnest(${ids}::uuid[]) with ordinality as id (value, nth) using (nth)
    ),
    made as (
      insert into notices as n (id, kind, subject, occasion, stage, license_id, key_id, true_since, made_at, facts)
      select id, ${kind}::text, subject, occasion, stage, license_id, key_id, true_since, ${now}::timestamptz, facts
        from named
       -- Every process locks rows in this order, so two never wait for each other.
       order by subject, occasion, stage
      on conflict on constraint notice_is_unique do update
        set state = 'open', made_at = excluded.made_at, key_id = excluded.key_id, true_since = excluded.true_since,
            facts = excluded.facts, closed_at = null, closed_by = null, withdrawn_for = null, remind_at = null, seen_at = null
          where n.state in ('withdrawn', 'replaced')
      returning n.*
    ),
    replaced as (
      update notices n
         set state = 'replaced', closed_at = ${now}::timestamptz, closed_by = ${nameOfActor(UPKEEP)}::text
       where n.id in (
               select earlier.id
                 from made
                      cross join lateral (
                        -- Without the state, so that the planner does not read all open notices of the kind for each.
                        select o.id, o.state from notices o
                         where o.kind = ${kind}::text and o.subject = made.subject and o.occasion = made.occasion
                           and o.stage < made.stage
                        offset 0) as earlier
                where earlier.state = 'open')
      returning n.*
    ),
    made_logged as (
      ${auditCte(sql, {
        action: "notice.make",
        actor: UPKEEP,
        at: now,
        from: sql`
          (select null::jsonb as before, account_id, license_id, key_id,
                  after || case when replaces is null then '{}' else jsonb_build_object('replaces', replaces) end as after
             from (select ${auditColumns(sql, sql`made`)},
                          (select ${idOf(sql, sql`r`)} from replaced r
                            where r.subject = made.subject and r.occasion = made.occasion
                            order by r.stage desc limit 1) as replaces
                     from made order by made.id) as rows) as made`,
      })}
    )`;
}
