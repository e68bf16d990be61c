/**
 * How many requests of clients were answered, by hour, endpoint, code and reason: for the page Activity, for the command
 * `activity` and for the API. Owns the tables `activity_hours` and `activity_days`.
 */

export {
  ACTIVITY_CONDITIONS,
  ACTIVITY_KEPT_DAYS,
  ACTIVITY_NAMES,
  ACTIVITY_STEPS,
  type ActivityName,
  type ActivityQuery,
  completeQuery,
  goBack,
  stepsOf,
} from "./activity_query.ts";
export { createActivityWriter } from "./activity_writer.ts";
export { type AnswerCount, addActivity } from "./add_activity.ts";
export { deleteActivityByReason } from "./delete_activity_by_reason.ts";
export { activityUpkeep } from "./delete_old_activity.ts";
export {
  type ActivityCount,
  findActivity,
  findEndpointHours,
  findErrorsOfHour,
  findFirstHour,
  type HourOfEndpoint,
  renderActivity,
} from "./find_activity.ts";
export { COMPARED_DAYS, findHours, type Unusual } from "./unusual.ts";
