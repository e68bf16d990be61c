/** Notices that were put off, on their day. */
import { auditCte, UPKEEP } from "../audit/mod.ts";
import { auditColumns } from "./_audit_columns.ts";
import { BATCH_ROWS, inBatches, type NoticeContext } from "./_in_batches.ts";

/** Notes each open notice whose day has come as due, once: so whoever follows the audit log hears of it again. */
export async function noteDue(context: NoticeContext): Promise<void> {
  await inBatches(
    context,
    {},
    (sql, seen, now) => sql`
      with looked as materialized (
        select id, remind_at as due_at from notices
         where state = 'open' and remind_at <= ${now}::timestamptz and id > ${seen.uuid}::uuid
         order by id limit ${BATCH_ROWS}
           for update skip locked
      ),
      due as (
        update notices n set remind_at = null from looked where looked.id = n.id
        returning n.*, looked.due_at
      ),
      due_logged as (
        ${auditCte(sql, {
          action: "notice.due",
          actor: UPKEEP,
          at: now,
          from: sql`
            (select jsonb_build_object('remind_at', due_at) as before, account_id, license_id, key_id, after
               from (select ${auditColumns(sql, sql`due`)}, due.due_at from due order by due.id) as rows) as due`,
        })}
      )
      select id as uuid from looked order by id desc limit 1`,
  );
}
