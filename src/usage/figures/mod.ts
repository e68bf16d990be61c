/**
 * Figures over all customers, which are computed ahead, because a page cannot count a million keys. Owns the tables
 * `figures`, `figure_run`, and those of each list: `figure_most_used`, `figure_latest_used`, `figure_near_quota`,
 * `figure_runs_out`, `figure_unused` and `figure_full`.
 */
export { MOST_SORTED } from "./_figure_statements.ts";
export {
  computeFigures,
  createFigureComputer,
  type FigureComputer,
  refreshFigures,
} from "./compute_figures.ts";
export {
  EXPIRING_DAYS,
  type Figures,
  MOST_DAYS_LEFT,
  NEAR_QUOTA_PERCENT,
  readFigures,
  UNUSED_DAYS,
} from "./figures.ts";
export { KEY_CONDITIONS, type KeyConditions, toKeyFilter } from "./key_conditions.ts";
export { renderFigures } from "./render_figures.ts";
export { findStoredLists, isByFigures } from "./stored_lists.ts";
