/**
 * How many requests of clients were answered, by hour, endpoint, code and reason: for the page Activity, for the command
 * `activity` and for the API. Owns the table `activity_hours`.
 */
export {
  type ActivityWriter,
  type AnswerCount,
  addActivity,
  createActivityWriter,
  type HourOfActivity,
  MAX_LOST_SECONDS,
} from "./activity_writer.ts";
export { completeQuery, goBack, stepsOf } from "./complete_query.ts";
export { ACTIVITY_KEPT_DAYS, deleteActivity, deleteOldActivity } from "./delete_old_activity.ts";
export {
  ACTIVITY_NAMES,
  ACTIVITY_STEPS,
  type ActivityCount,
  type ActivityName,
  type ActivityQuery,
  type ActivityStep,
  findActivity,
  findFirstHour,
} from "./find_activity.ts";
export { renderActivity } from "./render_activity.ts";
export { COMPARED_DAYS, findUnusual, type Unusual } from "./unusual.ts";
