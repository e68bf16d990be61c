import { deleteInBatches, type TaskContext, type UpkeepTask } from "../database/upkeep/mod.ts";
import { isOldAnswer } from "./idempotent_answers.ts";
import { deleteEndedCodes } from "./login_codes.ts";
import { isForgottenSession } from "./sessions.ts";

/** Runs seldom: ended rows have no effect, and there are few. */
export const operatorsUpkeep: UpkeepTask = {
  name: "operators",
  everyMs: 600_000,
  failed: "Could not delete old login codes, sessions and answers of operators: it is tried again",
  run: deleteEnded,
};

/** Deletes login codes that have ended, sessions that timed out hours ago, and answers that are not repeated any more. */
export async function deleteEnded(context: Omit<TaskContext, "log">): Promise<void> {
  const now = context.clock.now();
  await context.database.query(
    (sql) => sql`
      with codes as (${deleteEndedCodes(sql, now)})
      delete from operator_sessions s where ${isForgottenSession(sql, now)}`,
  );
  await deleteInBatches(context, {
    table: "idempotent_answers",
    primaryKey: ["token_id", "key_hash"],
    isOld: (sql) => isOldAnswer(sql, now),
  });
}
