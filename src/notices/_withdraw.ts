/** The statements that withdraw what is not true any more, in batches, with the rows of the audit log. */
import { auditCte, nameOfActor, UPKEEP } from "../audit/mod.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { auditColumns } from "./_audit_columns.ts";
import { keyOf, wantsNotices } from "./_conditions.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";
import type { NoticeKind, WithdrawnFor } from "./kinds.ts";

interface Withdrawal {
  readonly kind: NoticeKind;
  /**
   * Returns why the notice `n` is not true any more, as SQL: a word of `WITHDRAWN_WORDS`, or null if it is true. `l` is its
   * license, with nulls if it has none.
   */
  readonly why: (sql: Sql, now: Date) => Fragment;
}

/** Returns why a notice is withdrawn, as SQL. */
export function word(sql: Sql, why: WithdrawnFor): Fragment {
  return sql`${why}::text`;
}

/** Returns the cases, as SQL, in which no notice about the license `l` is true. */
export function casesOfLicense(sql: Sql): Fragment {
  return sql`
    when not (${wantsNotices(sql)}) then ${word(sql, "muted")}
    when ${keyOf(sql)} is null then ${word(sql, "no_key")}`;
}

/** As {@linkcode casesOfLicense}, for notices about the use of the license, which its end ends, too. */
export function casesOfUse(sql: Sql, now: Date): Fragment {
  return sql`
    ${casesOfLicense(sql)}
    when l.expires_at <= ${now}::timestamptz then ${word(sql, "license_ended")}`;
}

/** Returns why the notice `n` about a key is not true any more, as SQL, or null. `more` has further cases. */
export function whyKeyWithdrawn(sql: Sql, more: Fragment): Fragment {
  return sql`
    case when (select k.state from keys k where k.id = n.key_id) = 'revoked' then ${word(sql, "revoked")}
         ${more}
         when not (${wantsNotices(sql)}) then ${word(sql, "muted")}
    end`;
}

/** Withdraws the open notices of a kind that are not true any more. Skips notices that an operator changes now. */
export async function withdraw(context: NoticeContext, { kind, why }: Withdrawal): Promise<void> {
  await withdrawThose(context, { which: (sql) => sql`kind = ${kind}::text and state = 'open'`, why });
}

/** A clock that steps back by less withdraws nothing. */
const CLOCK_STEP_MS = 3_600_000;

/**
 * Withdraws notices of which the beginning lies ahead: a clock that was wrong made them. Those that an operator has marked as done
 * are withdrawn, too; otherwise nobody would hear of them when they are true.
 */
export async function withdrawAhead(context: NoticeContext): Promise<void> {
  await withdrawThose(context, {
    which: (sql, now) => sql`
      state in ('open', 'done') and true_since > ${new Date(now.getTime() + CLOCK_STEP_MS)}::timestamptz`,
    why: (sql) => word(sql, "ahead"),
  });
}

interface Those extends Pick<Withdrawal, "why"> {
  /** Which notices it looks at. */
  readonly which: (sql: Sql, now: Date) => Fragment;
}

async function withdrawThose(context: NoticeContext, { which, why }: Those): Promise<void> {
  await inBatches(
    context,
    {},
    (sql, seen, now) => sql`
      with looked as materialized (
        select id, state as state_before from notices
         where ${which(sql, now)} and id > ${seen.uuid}::uuid
         order by id limit ${BATCH_ROWS}
           for update skip locked
      ),
      judged as materialized (
        select n.id, looked.state_before, ${why(sql, now)} as why
          from looked join notices n using (id)
               -- Keeps the planner from reading all licenses.
               left join lateral (select * from licenses where licenses.id = n.license_id offset 0) as l on true
      ),
      gone as (
        update notices n
           set state = 'withdrawn', closed_at = ${now}::timestamptz, closed_by = ${nameOfActor(UPKEEP)}::text,
               withdrawn_for = judged.why
          from judged where judged.id = n.id and judged.why is not null
        returning n.*, judged.state_before
      ),
      gone_logged as (
        ${auditCte(sql, {
          action: "notice.withdraw",
          actor: UPKEEP,
          at: now,
          from: sql`
            (select jsonb_build_object('state', state_before) as before, account_id, license_id, key_id,
                    after || jsonb_build_object('withdrawn_for', withdrawn_for) as after
               from (select ${auditColumns(sql, sql`gone`)}, gone.withdrawn_for, gone.state_before from gone order by gone.id)
                    as rows) as gone`,
        })}
      )
      select id as uuid from looked order by id desc limit 1`,
  );
}
