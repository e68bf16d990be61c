/**
 * Statistics over all customers, which are computed ahead, because a page cannot count a million keys: use per day, and
 * the stored figures. Owns the tables `usage_days`, `usage_days_progress`, `figures`, `figure_near_quota`,
 * `figure_unused` and `figure_run`.
 */
export { computeFigures, createFigureComputer, type FigureComputer } from "./compute_figures.ts";
export { countUse, restartCount } from "./count_use.ts";
export {
  EXPIRING_DAYS,
  type Figures,
  findStoredLists,
  NEAR_QUOTA_PERCENT,
  readFigures,
  UNUSED_DAYS,
} from "./figures.ts";
export { renderFigures } from "./render_figures.ts";
export {
  completePeriod,
  MAX_USAGE_DAYS,
  renderUsageDays,
  USAGE_NAMES,
  type UsageName,
} from "./render_usage_days.ts";
export { addUsageDays, readUsageDays, type UsageDays } from "./usage_days.ts";
