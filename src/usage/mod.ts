/**
 * Usage: events, the month's quota, and the group commit that writes them. Owns the tables `usage`, `usage_changes`,
 * `events` and `claims`.
 */

export { commitEvents, type Grant } from "./commit_events.ts";
export { EVENT_TYPES, type EventOutcome, INFERENCE_TYPES, type UsageEvent } from "./event.ts";
export { digestEvent } from "./event_digest.ts";
export { createEventWriter, type EventGathering, type EventWriter } from "./event_writer.ts";
export { deleteUsage, importedUsageCte, insertUsageByDay } from "./imported_usage.ts";
export { attach as attachPartition } from "./partitions.ts";
export { renderUsage, renderUsageCsv, toShown, USAGE_CSV_HEADING } from "./render_usage.ts";
export { renderUsageByDay } from "./render_usage_by_day.ts";
export { renderUsageByMonth } from "./render_usage_by_month.ts";
export {
  type DayOfUse,
  findUsageByDay,
  findUsageByMonth,
  listUsage,
  type MonthOfUse,
  modesOfLicense,
  type UseOfMonth,
} from "./report_usage.ts";
export { createUpkeep, type Upkeep } from "./upkeep.ts";
export { type WriteWatch, watchWrites } from "./write_watch.ts";
