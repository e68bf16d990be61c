/** What is read off the results of a load, over rounds. */
import type { LoadResult } from "./load_job.ts";
import { median } from "./statistics.ts";
import { toCount } from "./table.ts";

export const perSecond = (results: readonly LoadResult[]) => results.map((result) => result.perSecond);

/** CPU time of the service and its PostgreSQL for one request, in µs. */
export const costUs = (results: readonly LoadResult[]) =>
  results.map(
    ({ serviceCpu, databaseCpu, requests }) => ((serviceCpu + (databaseCpu || 0)) / requests) * 1e6,
  );

/** The same of one of the processes alone. */
export const partUs = (results: readonly LoadResult[], part: "loadCpu" | "serviceCpu" | "databaseCpu") =>
  results.map((result) => (result[part] / result.requests) * 1e6);

/** Of one core, how much the load used. */
export const loadShare = (results: readonly LoadResult[]) =>
  median(results.map(({ loadCpu, seconds }) => loadCpu / seconds));

/** The same of the service and its PostgreSQL. */
export const serviceShare = (results: readonly LoadResult[]) =>
  median(results.map(({ serviceCpu, databaseCpu, seconds }) => (serviceCpu + (databaseCpu || 0)) / seconds));

/** The same of PostgreSQL alone. */
export const databaseShare = (results: readonly LoadResult[]) =>
  median(results.map(({ databaseCpu, seconds }) => databaseCpu / seconds));

/** Of one core, how much everything else on the machine used. */
export const othersShare = (results: readonly LoadResult[]) =>
  median(results.map(({ othersCpu, seconds }) => othersCpu / seconds));

/** `68,000/s`, the median of the rounds. */
export const rateText = (results: readonly LoadResult[]) => `${toCount(median(perSecond(results)))}/s`;

export const percent = (share: number) => `${(share * 100).toFixed(0)} %`;

/** Says which of the two was at its end. */
export function coresText(results: readonly LoadResult[]): string {
  return `server's core ${percent(serviceShare(results))} busy, load's ${percent(loadShare(results))}`;
}

/** The absolute figures behind a row, for the JSON: `prefix` says whose. */
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
