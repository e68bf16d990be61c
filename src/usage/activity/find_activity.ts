import { DAY_MS, toTimestamp } from "../../base/calendar.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { type Database, type Sql, toTextArray } from "../../database/mod.ts";
import { type ActivityQuery, goBack, MAX_DAYS } from "./activity_query.ts";

export interface ActivityCount {
  /** The beginning of the hour, day or month, UTC. */
  readonly at: Date;
  /** An endpoint, a code or a reason. */
  readonly name: string;
  readonly count: number;
}

/**
 * Finds how many requests were answered, by hour, day or month and by name, the earliest first. There is no row for a
 * count of zero. Refuses a span that is empty or too long for its step.
 */
export async function findActivity(
  database: Pick<Database, "read">,
  query: ActivityQuery,
): Promise<ActivityCount[] | Refusal> {
  const { from, to, step } = query;
  const spanMs = to.getTime() - from.getTime();
  if (spanMs <= 0) return refuseSpan("from must be before to");
  if (spanMs > MAX_DAYS[step] * DAY_MS)
    return refuseSpan(`by ${step} the span is at most ${MAX_DAYS[step]} days; choose a longer step`);
  return await countAnswers(database, query);
}

/** As {@linkcode findActivity}, for a span that is known to be right. */
export async function countAnswers(
  database: Pick<Database, "read">,
  { from, to, by, step }: ActivityQuery,
): Promise<ActivityCount[]> {
  // One row with an array of each column: rows of their own would take the client several times as long, and four weeks by hour
  // have some thousand.
  const [found] = await database.read<Columns>(
    (sql) => sql`
      select array_to_json(array_agg(extract(epoch from at)::bigint)) as seconds,
             array_to_json(array_agg(name)) as names, array_to_json(array_agg(count)) as counts
        from (select ${step === "month" ? sql`date_trunc('month', begins_at, 'UTC')` : sql`begins_at`} as at,
                     ${sql(by)} collate "C" as name, sum(count)::bigint as count
                from (${step === "hour" ? hours(sql) : days(sql)}) as counted
               where begins_at >= ${goBack(from, step, 0)}::timestamptz and begins_at < ${to}::timestamptz
                 and (${by !== "reason"}::boolean or (reason <> '' and code <> 'OK'))
               group by 1, 2
               order by 1, 2) as ordered`,
  );
  const { seconds, names, counts } = found ?? {};
  return (seconds ?? []).map((second, place) => {
    return { at: new Date(second * 1_000), name: names?.[place] ?? "", count: counts?.[place] ?? 0 };
  });
}

/** The columns of all counts, null without any: the same place of each belongs to one count. */
interface Columns {
  readonly seconds: readonly number[] | null;
  readonly names: readonly string[] | null;
  readonly counts: readonly number[] | null;
}

/** What an endpoint answered in an hour. */
export interface HourOfEndpoint {
  readonly at: Date;
  readonly endpoint: string;
  readonly requests: number;
  /** Answered with an error that is no failure of the service. */
  readonly refused: number;
  readonly failed: number;
}

/**
 * Finds what each endpoint answered in each hour of a query, by endpoint and the earliest hour first. `failures` are
 * the codes of answers with a status of 500 or more.
 */
export async function findEndpointHours(
  database: Pick<Database, "read">,
  { from, to }: Pick<ActivityQuery, "from" | "to">,
  failures: readonly string[],
): Promise<readonly HourOfEndpoint[]> {
  return await database.read<HourOfEndpoint>(
    (sql) => sql`
      select hour as at, endpoint, sum(count)::bigint as requests,
             coalesce(sum(count) filter (where code <> 'OK' and not is_failure), 0)::bigint as refused,
             coalesce(sum(count) filter (where is_failure), 0)::bigint as failed
        from activity_hours
             cross join lateral (select code = any(${toTextArray(failures)}::text[]) as is_failure) as answer
       where hour >= ${goBack(from, "hour", 0)}::timestamptz and hour < ${to}::timestamptz
       group by hour, endpoint
       order by endpoint collate "C", hour`,
  );
}

/** How often an endpoint answered in one way in an hour, and how often all endpoints did. */
interface AnswerOfHour {
  readonly code: string;
  readonly count: number;
  readonly countOfAll: number;
}

/** Finds the errors that an endpoint answered in the hour of an instant, the most frequent first. */
export async function findErrorsOfHour(
  database: Pick<Database, "read">,
  { at, endpoint }: { readonly at: Date; readonly endpoint: string },
): Promise<readonly AnswerOfHour[]> {
  return await database.read<AnswerOfHour>(
    (sql) => sql`
      select code, sum(count) filter (where endpoint = ${endpoint})::bigint as count,
             sum(count)::bigint as "countOfAll"
        from activity_hours
       where hour = ${goBack(at, "hour", 0)}::timestamptz and code <> 'OK'
       group by code having bool_or(endpoint = ${endpoint})
       order by 2 desc, 1`,
  );
}

function refuseSpan(error: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot show activity: ${error}`, { fields: [{ field: "from", error }] });
}

const hours = (sql: Sql) => sql`select hour as begins_at, endpoint, code, reason, count from activity_hours`;
const days = (sql: Sql) =>
  sql`select day::timestamp at time zone 'UTC' as begins_at, endpoint, code, reason, count from activity_days`;

/** Finds the first hour that was counted; undefined if none was. */
export async function findFirstHour(database: Pick<Database, "read">): Promise<Date | undefined> {
  const [row] = await database.read<{ first: Date | null }>(
    (sql) => sql`select min(hour) as first from activity_hours`,
  );
  return row?.first ?? undefined;
}

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
