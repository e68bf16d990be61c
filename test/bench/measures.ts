/** Computes figures from the results of a load, over rounds. */
import type { LoadResult } from "./load_job.ts";
import { median } from "./statistics.ts";
import { toCount } from "./table.ts";

export const perSecond = (results: readonly LoadResult[]) => results.map((result) => result.perSecond);

/** Returns the CPU time of the service and its PostgreSQL for one request, in µs. */
export const costUs = (results: readonly LoadResult[]) =>
  results.map(
    ({ serviceCpu, databaseCpu, requests }) => ((serviceCpu + (databaseCpu || 0)) / requests) * 1e6,
  );

/** Returns the CPU time of one process alone for one request, in µs. */
export const partUs = (results: readonly LoadResult[], part: "loadCpu" | "serviceCpu" | "databaseCpu") =>
  results.map((result) => (result[part] / result.requests) * 1e6);

/** Returns the share of one core that the load used. */
const loadShare = (results: readonly LoadResult[]) =>
  median(results.map(({ loadCpu, seconds }) => loadCpu / seconds));

/** Returns the share of one core that the service and its PostgreSQL used. */
const serviceShare = (results: readonly LoadResult[]) =>
  median(results.map(({ serviceCpu, databaseCpu, seconds }) => (serviceCpu + (databaseCpu || 0)) / seconds));

/** Returns the share of one core that all other processes on the machine used. */
const othersShare = (results: readonly LoadResult[]) =>
  median(results.map(({ othersCpu, seconds }) => othersCpu / seconds));

/** Returns `68,000/s`, the median of the rounds. */
export const rateText = (results: readonly LoadResult[]) => `${toCount(median(perSecond(results)))}/s`;

const percent = (share: number) => `${(share * 100).toFixed(0)} %`;

/** Says how busy each of the two cores was, to show which one was the limit. */
export function coresText(results: readonly LoadResult[]): string {
  return `server's core ${percent(serviceShare(results))} busy, load's ${percent(loadShare(results))}`;
}

/** Returns the absolute figures behind a row, for the JSON; `prefix` names the measured program. */
export function detailsOf(prefix: string, results: readonly LoadResult[]): Record<string, number> {
  return {
    [`${prefix} per second`]: median(perSecond(results)),
    [`${prefix} µs of CPU a request`]: median(costUs(results)),
    [`${prefix} p50 ms`]: median(results.map((result) => result.p50Ms)),
    [`${prefix} p99 ms`]: median(results.map((result) => result.p99Ms)),
    [`${prefix} server's core busy`]: serviceShare(results),
    [`${prefix} load's core busy`]: loadShare(results),
    [`${prefix} others' share of a core`]: othersShare(results),
  };
}
