/**
 * Upkeep: the tasks that rooms declare for the background, scheduled in one place that also counts their failures.
 *
 * Old rows of a table that grows are deleted in one of three ways:
 *
 * - {@linkcode deleteInBatches} is the usual way. A query finds a small batch of old rows, and they are deleted.
 * - A sweep (`usage/_sweep.ts`) reads the whole table from its first page to its last, and deletes the old rows that it meets. `claims` and `usage_changes` get
 *   a row with each event, and an index that finds the old rows would make each event more expensive.
 * - `events` has a partition for each month, and `usage/retention.ts` drops the partition. That reads no event.
 *
 * A room whose old rows are always few deletes them with a statement of its own.
 */
export { deleteInBatches } from "./delete_in_batches.ts";
export type { TaskContext, UpkeepTask } from "./task.ts";
export { createUpkeep, type Upkeep } from "./upkeep.ts";
