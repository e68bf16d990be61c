import type { TaskContext, UpkeepTask } from "../upkeep/mod.ts";
import { isLiveSession } from "./_is_live_session.ts";
import { isOldAnswer } from "./idempotent_answers.ts";
import { deleteEndedCodes } from "./login_codes.ts";

/** A small number, so that a request that stores its answer meanwhile hardly waits. */
const BATCH_ROWS = 1_000;

/** Runs seldom: ended rows have no effect, and there are few. */
export const operatorsUpkeep: UpkeepTask = {
  name: "operators",
  everyMs: 600_000,
  failed: "Could not delete old login codes, sessions and answers of operators: it is tried again",
  run: deleteEnded,
};

/** Deletes login codes and sessions that have ended, and answers that are not repeated any more. */
export async function deleteEnded({ database, clock, isStopping }: Omit<TaskContext, "log">): Promise<void> {
  const now = clock.now();
  await database.query(
    (sql) => sql`
      with codes as (${deleteEndedCodes(sql, now)})
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
