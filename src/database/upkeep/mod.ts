/** Upkeep: the tasks that rooms declare for the background, scheduled in one place that also counts their failures. */
export { deleteInBatches } from "./delete_in_batches.ts";
export type { TaskContext, UpkeepTask } from "./task.ts";
export { createUpkeep, type Upkeep } from "./upkeep.ts";
