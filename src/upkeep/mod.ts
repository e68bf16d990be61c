/** Upkeep: the tasks that rooms declare for the background. They are scheduled, and their failures counted, in one place. */
export type { TaskContext, UpkeepTask } from "./task.ts";
export { createUpkeep, type Upkeep } from "./upkeep.ts";
