/**
 * The statements that make notices. Each looks at a batch, in the order of an index, and writes the rows of the audit log with it.
 * Two processes that run it at once make each notice once, because the constraint decides.
 */
import { auditCte, UPKEEP } from "../audit/mod.ts";
import { newUuid } from "../base/ids.ts";
import { type Fragment, type PendingRows, type Sql, toTextArray } from "../database/mod.ts";
import type { TaskContext } from "../database/upkeep/mod.ts";
import type { NoticeKind } from "./kinds.ts";

/** How many rows a statement looks at. It is also the most notices that a statement writes. */
export const BATCH_ROWS = 500;

export type NoticeContext = Pick<TaskContext, "database" | "clock" | "isStopping">;

/** A place in an order: an id, or an instant as PostgreSQL writes it and an id. */
export interface Position {
  readonly at?: string;
  readonly uuid: string;
}

const FIRST_UUID = "00000000-0000-0000-0000-000000000000";

/**
 * Runs a statement for one batch after the other, until one finds nothing or the service stops. The statement gets the position of
 * the last row of the batch before it, at first one after `since`, and returns that of its own last row.
 */
export async function inBatches(
  { database, clock, isStopping }: NoticeContext,
  { since }: { readonly since?: Date },
  build: (sql: Sql, seen: Required<Position>, now: Date) => PendingRows,
): Promise<void> {
  let after: Position | undefined = { at: since?.toISOString() ?? "-infinity", uuid: FIRST_UUID };
  while (after !== undefined && !isStopping()) {
    const seen: Required<Position> = { at: "", ...after };
    const now = clock.now();
    const [last] = await database.query<Position>((sql) => build(sql, seen, now));
    after = last;
  }
}

/** Returns an instant, as SQL, in the form of all other texts; `at` is SQL, too. */
export function textOf(sql: Sql, at: Fragment): Fragment {
  return sql`to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;
}

/** Returns the id of a notice as operators see it, as SQL. */
function idOf(sql: Sql, row: Fragment): Fragment {
  return sql`'ntc_' || replace(${row}.id::text, '-', '')`;
}

/** Returns the values of a notice for the audit log. The log has no other values of the rows that it names. */
function logged(sql: Sql, row: Fragment): Fragment {
  return sql`
    jsonb_build_object('notice', ${idOf(sql, row)}, 'kind', ${row}.kind, 'state', ${row}.state,
                       'true_since', ${textOf(sql, sql`${row}.true_since`)}) || ${row}.facts`;
}

/** Returns the columns, as SQL, that a row of the audit log about the notice `row` has. */
export function auditColumns(sql: Sql, row: Fragment): Fragment {
  return sql`
    (select l.account_id from licenses l where l.id = ${row}.license_id) as account_id, ${row}.license_id, ${row}.key_id,
    ${logged(sql, row)} as after`;
}

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
         set state = 'replaced', closed_at = ${now}::timestamptz, closed_by = 'service:upkeep'
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
