import { deleteInBatches, type TaskContext, type UpkeepTask } from "../../database/upkeep/mod.ts";

/** For how many days a machine is kept after its place ended. */
const ENDED_KEPT_DAYS = 90;
const MOST_A_RUN = 10_000;

/** Runs seldom: machines that hold no place and old releases have no effect. */
export const machinesUpkeep: UpkeepTask = {
  name: "machines",
  everyMs: 3_600_000,
  failed: "Could not delete machines whose places ended long ago: it is tried again",
  async run(context) {
    await deleteEndedMachines(context);
    await deleteOldReleases(context);
  },
};

/** The longest time in which releases by id are counted; see `self_release_bound` in `0045_first_use.sql`. */
const RELEASES_COUNTED_DAYS = 30;

/** Deletes the releases by id that no bound counts any more, by the clock of the database. */
async function deleteOldReleases(context: Pick<TaskContext, "database" | "isStopping">): Promise<void> {
  await deleteInBatches(context, {
    table: "self_releases",
    primaryKey: ["license_id", "released_at", "machine_id"],
    mostRows: MOST_A_RUN,
    isOld: (sql) =>
      sql`released_at < clock_timestamp() - ${RELEASES_COUNTED_DAYS}::integer * interval '24 hours'`,
  });
}

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

/** How many machines a statement looks at. */
const LOOKED_AT = 2_000;

/** The lists of a state follow within this time, the shortest one of a seat. */
export const noteEndsUpkeep: UpkeepTask = {
  name: "machine_ends",
  everyMs: 300_000,
  failed: "Could not note which machines lost their places: it is tried again",
  run: noteEnds,
};

/**
 * Notes every activation and place that has ended by itself, by the clock of the database, so that the indexes of the
 * lists know it. Nothing else depends on it. Skips machines that a request has locked, so it never waits.
 */
export async function noteEnds({
  database,
  isStopping,
}: Pick<TaskContext, "database" | "isStopping">): Promise<void> {
  let after: string | undefined = "00000000-0000-0000-0000-000000000000";
  while (after !== undefined && !isStopping()) {
    const seen: string = after;
    const [last] = await database.query<{ uuid: string }>(
      (sql) => sql`
        with looked as materialized (
          select id from machines where id > ${seen}::uuid order by id limit ${LOOKED_AT}
        ),
        due as (
          select m.id from machines m
           where m.id = any(array(select id from looked)) and m.ended_at is null and m.active_until <= clock_timestamp()
             and (m.stored_state = 'active' or m.signed_until <= clock_timestamp())
             for update skip locked
        ),
        noted as (
          update machines m
             set active_until = '-infinity', ended_at = case when m.signed_until <= clock_timestamp() then clock_timestamp() end
           where m.id = any(array(select id from due))
        )
        select id as uuid from looked order by id desc limit 1`,
    );
    after = last?.uuid;
  }
}
