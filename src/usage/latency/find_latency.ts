/** Finds how long the requests of each endpoint took, over all processes. */
import { HOUR_MS } from "../../base/calendar.ts";
import { quantileOf } from "../../base/histogram.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { type Database, type Sql, toTextArray } from "../../database/mod.ts";
import { BOUNDS_SECONDS, LATENCY_KEPT_HOURS } from "./bounds.ts";
import type { EndpointLatency, LatencyStep, Measured } from "./endpoint_latency.ts";
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
  const spanMs = to.getTime() - from.getTime();
  if (spanMs <= 0) return refuseSpan("from must be before to");
  if (spanMs > LATENCY_KEPT_HOURS * HOUR_MS)
    return refuseSpan(`the span is at most ${LATENCY_KEPT_HOURS} hours; choose a later start`);
  const { dayBefore, lastHour } = comparedTimesOf(query);
  const first = stepOf(from);
  const [firstMs, dayMs, hourMs] = [first.getTime(), dayBefore.getTime(), lastHour.getTime()];
  const found = await readSteps(database, {
    ...{ from: new Date(Math.min(firstMs, dayMs)), to },
    endpoints: query.endpoint === undefined ? undefined : [query.endpoint],
  });
  return rankEndpoints(
    found.flatMap(({ endpoint, steps: all }) => {
      const steps = all.filter(({ atMs }) => atMs >= firstMs);
      if (steps.length === 0) return [];
      return {
        endpoint,
        lastHour: toMeasured(addUp(all.filter(({ atMs }) => atMs >= hourMs))),
        dayBefore: toMeasured(addUp(all.filter(({ atMs }) => atMs >= dayMs && atMs < hourMs))),
        steps: steps.map(toStep),
        hours: [...Map.groupBy(steps, ({ atMs }) => atMs - (atMs % HOUR_MS))].map(([atMs, parts]) =>
          toStep({ atMs, ...addUp(parts) }),
        ),
      };
    }),
  );
}

interface StepsOfEndpoint {
  readonly endpoint: string;
  /** The earliest first. */
  readonly steps: readonly Step[];
}

/** Reads the five minutes of a span, of all endpoints or of some, over all processes. */
export async function readSteps(
  database: Pick<Database, "read">,
  { from, to, endpoints }: LatencyQuery & { readonly endpoints?: readonly string[] | undefined },
): Promise<readonly StepsOfEndpoint[]> {
  const only = endpoints === undefined ? null : toTextArray(endpoints);
  // One row for each endpoint, and the processes are added up here: rows of their own for all five minutes, and sums of arrays,
  // would take PostgreSQL and its client nearly twice as long.
  const found = await database.read<EndpointRows>(
    (sql) => sql`
      select endpoint, array_to_json(array_agg(extract(epoch from at)::bigint)) as seconds,
             array_to_json(array_agg(refused)) as refused, array_to_json(array_agg(failed)) as failed,
             array_to_json(array_agg(buckets)) as buckets
        from latency_steps
       where at >= ${from}::timestamptz and at < ${to}::timestamptz
         and (${only}::text[] is null or endpoint = any(${only}::text[]))
       group by endpoint
       order by endpoint collate "C"`,
  );
  return found.map((rows) => ({ endpoint: rows.endpoint, steps: addProcesses(rows) }));
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

/** The rows of an endpoint: the same place of each array belongs to one row. */
interface EndpointRows {
  readonly endpoint: string;
  readonly seconds: readonly number[];
  readonly refused: readonly number[];
  readonly failed: readonly number[];
  readonly buckets: readonly (readonly number[])[];
}

interface Step extends Sums {
  readonly atMs: number;
}

/** Adds the processes of each five minutes up, the earliest first. */
function addProcesses({ seconds, refused, failed, buckets }: EndpointRows): readonly Step[] {
  const rows = seconds.map((second, place) => ({
    atMs: second * 1_000,
    refused: refused[place] ?? 0,
    failed: failed[place] ?? 0,
    buckets: buckets[place] ?? [],
  }));
  return [...Map.groupBy(rows, ({ atMs }) => atMs)]
    .toSorted(([one], [other]) => one - other)
    .flatMap(([atMs, parts]) => (parts.length === 1 ? parts : [{ atMs, ...addUp(parts) }]));
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

/** Returns what a page shows of five minutes, of which all processes are added up. */
export function toStep({ atMs, ...sums }: Step): LatencyStep {
  return { at: new Date(atMs), ...toMeasured(sums) };
}

function toMeasured({ refused, failed, buckets }: Sums): Measured {
  const histogram = [{ bounds: BOUNDS_SECONDS, counts: buckets, sum: 0 }];
  const msOf = (share: number) => {
    const seconds = quantileOf(histogram, share);
    return seconds && seconds * 1_000;
  };
  let requests = 0;
  for (const count of buckets) requests += count;
  return { requests, refused, failed, p50Ms: msOf(0.5), p95Ms: msOf(0.95), p99Ms: msOf(0.99) };
}

function refuseSpan(error: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot show latency: ${error}`, { fields: [{ field: "from", error }] });
}
