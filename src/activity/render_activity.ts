import { toTimestamp } from "../calendar.ts";
import type { ActivityQuery } from "./activity_query.ts";
import type { ActivityCount } from "./find_activity.ts";

/**
 * Renders counts as JSON, for `--json` of the command and for the API. Metrics have the same names: the counter
 * `claviger_http_requests_total` has the labels `endpoint`, `code` and `reason`.
 */
export function renderActivity({ from, to, by, step }: ActivityQuery, counts: readonly ActivityCount[]) {
  return {
    from: toTimestamp(from),
    to: toTimestamp(to),
    by,
    step,
    data: counts.map(({ at, name, count }) => ({ at: toTimestamp(at), [by]: name, http_requests: count })),
  };
}
