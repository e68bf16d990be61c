import { type Database, type Fragment, type Gain, type Sql, toTextArray } from "../../database/mod.ts";

/** How the requests of an endpoint ended, and how many of them took how long. */
export interface LatencyCount {
  readonly endpoint: string;
  /** Answered with an error that is no failure of the service. */
  readonly refused: number;
  /** Answered with a status of 500 or more. */
  readonly failed: number;
  /** The requests of each bucket of the bounds. */
  readonly buckets: readonly number[];
}

/**
 * The most processes that have rows of their own in the same five minutes: every page reads the rows of all of them. The comments of
 * `sql/0048_latency.sql` have an older number.
 */
export const MOST_PROCESSES = 16;
/** The id of the rows that processes share: those beyond the first ones, and later all of them (see `merge_latency.ts`). */
export const SHARED = "00000000-0000-0000-0000-000000000000";

/** Adds counts of a process to its rows. No two counts may have the same step and endpoint. */
export async function addLatency(
  database: Pick<Database, "query">,
  gains: readonly Gain<LatencyCount>[],
  { processUuid }: { readonly processUuid: string },
): Promise<void> {
  const rows = gains.map(({ atMs, count }) => ({ atMs, ...count, buckets: toTextArray(count.buckets) }));
  await database.query(
    (sql) => sql`
      with counted as (
        select to_timestamp("atMs" / 1000) as at, endpoint, refused, failed, buckets::bigint[] as buckets
          from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb)
               as rows ("atMs" double precision, endpoint text, refused bigint, failed bigint, buckets text)
      )
      insert into latency_steps as l (at, endpoint, process_id, refused, failed, buckets)
      select at, endpoint,
             case when (select count(*) from latency_steps o
                         where o.at = c.at and o.endpoint = c.endpoint
                           and o.process_id not in (${processUuid}::uuid, ${SHARED}::uuid))
                       < ${MOST_PROCESSES}
                  then ${processUuid}::uuid else ${SHARED}::uuid end,
             refused, failed, buckets
        from counted c
       -- Every writer locks rows in this order, so two processes never wait for each other.
       order by at, endpoint collate "C"
      ${addedToRow(sql)}`,
  );
}

/** The end of an `insert` into `latency_steps as l`: what a row has already is added to. */
export function addedToRow(sql: Sql): Fragment {
  return sql`
    on conflict (at, endpoint, process_id) do update
      set refused = l.refused + excluded.refused,
          failed = l.failed + excluded.failed,
          buckets = (select array_agg(coalesce(one, 0) + coalesce(other, 0) order by bucket)
                       from unnest(l.buckets, excluded.buckets) with ordinality as each (one, other, bucket))`;
}
