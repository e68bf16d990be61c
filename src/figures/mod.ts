/**
 * Figures over all customers, which are computed ahead, because a page cannot count a million keys. Owns the tables
 * `figures`, `figure_near_quota`, `figure_runs_out`, `figure_unused`, `figure_full` and `figure_run`.
 */
export { computeFigures, createFigureComputer, type FigureComputer } from "./compute_figures.ts";
export {
  EXPIRING_DAYS,
  type Figures,
  MOST_DAYS_LEFT,
  NEAR_QUOTA_PERCENT,
  readFigures,
  UNUSED_DAYS,
} from "./figures.ts";
export { renderFigures } from "./render_figures.ts";
export { findStoredLists, type StoredConditions } from "./stored_lists.ts";
