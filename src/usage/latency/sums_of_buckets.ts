import type { Fragment, Sql } from "../../database/mod.ts";
import { BOUNDS_SECONDS } from "./bounds.ts";

/**
 * The sums of each bucket of a group, with commas between them. Each is added by itself, as a float, which is exact for counts:
 * adding integers of 8 bytes takes several times as long, and unnesting all rows longer still.
 */
export function sumsOfBuckets(sql: Sql): Fragment[] {
  return [...BOUNDS_SECONDS, Number.POSITIVE_INFINITY].map(
    (_, index) => sql`${index === 0 ? sql`` : sql`,`} sum(buckets[${index + 1}::integer]::float8)`,
  );
}
