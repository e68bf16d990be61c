import type { Database } from "../database/mod.ts";
import { isLiveSession } from "./_is_live_session.ts";
import { isOldAnswer } from "./idempotent_answers.ts";

/** A small number, so that a request that stores its answer meanwhile hardly waits. */
const BATCH_ROWS = 1_000;

/** Deletes login codes and sessions that have ended, and answers that are not repeated any more. */
export async function deleteEnded(
  database: Pick<Database, "query">,
  { now, isStopping }: { readonly now: Date; readonly isStopping: () => boolean },
): Promise<void> {
  await database.query(
    (sql) => sql`
      with codes as (delete from login_codes where expires_at <= ${now}::timestamptz)
      delete from operator_sessions s where not ${isLiveSession(sql, now)}`,
  );
  for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS && !isStopping(); ) {
    const rows = await database.query(
      (sql) => sql`
        delete from idempotent_answers
         where (token_id, key_hash) in (
                 select token_id, key_hash from idempotent_answers
                  where ${isOldAnswer(sql, now)}
                  order by created_at limit ${BATCH_ROWS} for update skip locked
               )
        returning 1 as deleted`,
    );
    deleted = rows.length;
  }
}
