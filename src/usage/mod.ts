/**
 * Usage: events, the month's quota, the group commit that writes them, and the use per day of all licenses. Owns the
 * tables `usage`, `usage_changes`, `events`, `claims`, `event_texts`, `installation_texts`, `usage_days`,
 * `usage_days_progress`, `usage_journals` and `usage_reports`.
 */

export type { TextBounds } from "./_text_room.ts";
export { commitEvents, type Grant } from "./commit_events.ts";
export { compareMonths } from "./compare_months.ts";
export { countUse, restartCount } from "./count_use.ts";
export { findErasedMonth } from "./erase_texts.ts";
export { EVENT_TYPES, type EventOutcome, INFERENCE_TYPES, type UsageEvent } from "./event.ts";
export { digestEvent } from "./event_digest.ts";
export { batchEventFields, CLAIM, type EventFields, eventFields, isPlainEvent } from "./event_fields.ts";
export { createEventWriter, type EventGathering, type EventWriter } from "./event_writer.ts";
export { findTextsLeftOut, findTextsToday, type TextsToday } from "./find_texts.ts";
export { deleteUsage, importedUsageCte } from "./imported_usage.ts";
export { attach as attachPartition } from "./partitions.ts";
export {
  OVER,
  readUsageCsv,
  renderUsage,
  renderUsageByDay,
  renderUsageByMonth,
  toUsageCells,
  USAGE_FIELDS,
} from "./render_usage.ts";
export {
  completePeriod,
  MUST_BE_NEAR,
  renderUsageDays,
  USAGE_DAYS_CONDITIONS,
  USAGE_NAMES,
} from "./render_usage_days.ts";
export {
  countUsage,
  findUsageByDay,
  findUsageByMonth,
  isUseOrdered,
  listUsage,
  type MonthOfUse,
  type UsageByDay,
  usagePages,
} from "./report_usage.ts";
export {
  type ChangedMonth,
  createRefusedNumbers,
  createReportImports,
  describeOrigin,
  describeReport,
  foreseeReports,
  type ImportOptions,
  importReport,
  nothingImported,
  openReportDatabase,
  parseReport,
  REPORT_FIELDS,
  REPORT_LIMIT_BYTES,
  type ReportImports,
  type ReportResult,
  renderReport,
  type Taken,
  type UsageReport,
} from "./reports/mod.ts";
export { readUsageDays, type UsageDays } from "./usage_days.ts";
export { createUsageUpkeep, type UsageUpkeep } from "./usage_upkeep.ts";
export { type WriteWatch, watchWrites } from "./write_watch.ts";
