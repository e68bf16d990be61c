/** Finds how long the requests of each endpoint took, over all processes. */
import { HOUR_MS } from "../../base/calendar.ts";
import { quantileOf } from "../../base/histogram.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Database, Sql } from "../../database/mod.ts";
import { BOUNDS_SECONDS, LATENCY_KEPT_HOURS } from "./bounds.ts";
import type { EndpointLatency, Measured } from "./endpoint_latency.ts";
import { comparedTimesOf, type LatencyQuery, stepOf } from "./latency_query.ts";
import { HEALTH, rankEndpoints } from "./rank_endpoints.ts";
import { sumsOfBuckets } from "./sums_of_buckets.ts";

/**
 * Finds each endpoint that had a request in a span, the worst first, as {@linkcode rankEndpoints} says. Refuses a span that is
 * empty or longer than rows are kept.
 */
export async function findLatency(
  database: Pick<Database, "read">,
  query: LatencyQuery & {
    /** Finds only this endpoint. */
    readonly endpoint?: string | undefined;
  },
): Promise<readonly EndpointLatency[] | Refusal> {
  const { from, to } = query;
  const only = query.endpoint ?? null;
  const spanMs = to.getTime() - from.getTime();
  if (spanMs <= 0) return refuseSpan("from must be before to");
  if (spanMs > LATENCY_KEPT_HOURS * HOUR_MS)
    return refuseSpan(`the span is at most ${LATENCY_KEPT_HOURS} hours; choose a later start`);
  const { dayBefore, lastHour } = comparedTimesOf(query);
  const first = stepOf(from);
  // One statement reads each row once. The times that are compared are added up here, from its few groups.
  const found = await database.read<Step>(
    (sql) => sql`
      select endpoint, at, ${sums(sql)}
        from latency_steps
       where at >= least(${first}::timestamptz, ${dayBefore}::timestamptz) and at < ${to}::timestamptz
         and (${only}::text is null or endpoint = ${only})
       group by endpoint, at
       order by endpoint collate "C", at`,
  );
  return rankEndpoints(
    [...Map.groupBy(found, ({ endpoint }) => endpoint)].flatMap(([endpoint, rows]) => {
      const steps = rows.filter(({ at }) => at >= first);
      if (steps.length === 0) return [];
      return {
        endpoint,
        lastHour: toMeasured(addUp(rows.filter(({ at }) => at >= lastHour))),
        dayBefore: toMeasured(addUp(rows.filter(({ at }) => at >= dayBefore && at < lastHour))),
        steps: steps.map((row) => ({ at: row.at, ...toMeasured(row) })),
        hours: [...Map.groupBy(steps, ({ at }) => at.getTime() - (at.getTime() % HOUR_MS))].map(
          ([hourMs, rows]) => ({ at: new Date(hourMs), ...toMeasured(addUp(rows)) }),
        ),
      };
    }),
  );
}

/** Finds how long the requests of each process took since an instant, by its UUID. */
export async function findProcessLatency(
  database: Pick<Database, "read">,
  since: Date,
): Promise<ReadonlyMap<string, Measured>> {
  const rows = await database.read<Sums & { readonly uuid: string }>(
    (sql) => sql`
      select process_id as uuid, ${sums(sql)}
        from latency_steps
       -- A balancer checks the health all the time, which would hide the requests of clients.
       where at >= ${stepOf(since)}::timestamptz and endpoint <> ${HEALTH}
       group by process_id`,
  );
  return new Map(rows.map((row) => [row.uuid, toMeasured(row)]));
}

interface Sums {
  readonly refused: number;
  readonly failed: number;
  readonly buckets: readonly number[];
}

interface Step extends Sums {
  readonly endpoint: string;
  readonly at: Date;
}

/** The sums of a group. */
function sums(sql: Sql) {
  return sql`sum(refused)::bigint as refused, sum(failed)::bigint as failed,
             json_build_array(${sumsOfBuckets(sql)}) as buckets`;
}

function addUp(rows: readonly Sums[]): Sums {
  const buckets = [...BOUNDS_SECONDS, Number.POSITIVE_INFINITY].map(() => 0);
  let [refused, failed] = [0, 0];
  for (const row of rows) {
    refused += row.refused;
    failed += row.failed;
    // Not `entries()`, which takes several times as long for the thousands of rows of a page.
    for (let index = 0; index < row.buckets.length; index++)
      buckets[index] = (buckets[index] ?? 0) + (row.buckets[index] ?? 0);
  }
  return { refused, failed, buckets };
}

function toMeasured({ refused, failed, buckets }: Sums): Measured {
  const msOf = (share: number) => {
    const seconds = quantileOf([{ bounds: BOUNDS_SECONDS, counts: buckets, sum: 0 }], share);
    return seconds && seconds * 1_000;
  };
  const requests = buckets.reduce((sum, count) => sum + count, 0);
  return { requests, refused, failed, p50Ms: msOf(0.5), p95Ms: msOf(0.95), p99Ms: msOf(0.99) };
}

function refuseSpan(error: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot show latency: ${error}`, { fields: [{ field: "from", error }] });
}
