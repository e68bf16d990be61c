import { deleteInBatches, type TaskContext, type UpkeepTask } from "../upkeep/mod.ts";

/** For how many days a machine is kept after its place ended. */
export const ENDED_KEPT_DAYS = 90;
const MOST_A_RUN = 10_000;

/** Runs seldom: machines that hold no place have no effect. */
export const machinesUpkeep: UpkeepTask = {
  name: "machines",
  everyMs: 3_600_000,
  failed: "Could not delete machines whose places ended long ago: it is tried again",
  run: deleteEndedMachines,
};

/** Deletes machines whose places ended more than {@linkcode ENDED_KEPT_DAYS} days ago, by the clock of the database. */
export async function deleteEndedMachines(
  context: Pick<TaskContext, "database" | "isStopping">,
): Promise<void> {
  await deleteInBatches(context, {
    table: "machines",
    primaryKey: ["id"],
    mostRows: MOST_A_RUN,
    // `ended_at` is set when the next machine asks for a place: until then a machine that ended has none.
    isOld: (sql) => sql`
      coalesce(ended_at, greatest(active_until, signed_until))
        < clock_timestamp() - ${ENDED_KEPT_DAYS}::integer * interval '24 hours'`,
  });
}
