import { VERSION } from "../../base/version.ts";
import type { Database } from "../mod.ts";

export interface ServingProcess {
  readonly uuid: string;
  readonly version: string;
  /** The name of its host. */
  readonly host: string;
  /** Where clients reach it, such as `https://0.0.0.0:8443`. */
  readonly address: string;
  /** Whether it counts the requests of a key alone, or together with other processes. */
  readonly rateLimits: "process" | "shared";
  readonly startedAt: Date;
  /** Half of its requests were answered within this time; null until the process has reported it. */
  readonly p50Ms: number | null;
  /** As `p50Ms`, for 95 % of its requests. */
  readonly p95Ms: number | null;
  /** By the clock of the database. */
  readonly seenSecondsAgo: number;
  /** True if it has not renewed its row for five minutes: it was killed, or it cannot reach the database. */
  readonly isLost: boolean;
}

/** No database has so many processes. */
const MAX_LISTED = 100;
const LOST_AFTER_SECONDS = 300;

/**
 * Lists the processes that serve the database, the latest report first. Processes that have been lost for a day are
 * left out.
 */
export async function listProcesses(database: Database): Promise<readonly ServingProcess[]> {
  const rows = await database.read<Omit<ServingProcess, "isLost">>(
    (sql) => sql`
      select id as uuid, version, host, address, started_at as "startedAt",
             coalesce(rate_limits, 'process') as "rateLimits", p50_ms as "p50Ms", p95_ms as "p95Ms",
             greatest(0, floor(extract(epoch from now() - seen_at)))::int as "seenSecondsAgo"
        from processes
       where seen_at > now() - interval '1 day'
       order by seen_at desc
       limit ${MAX_LISTED}`,
  );
  return rows.map((row) => ({ ...row, isLost: row.seenSecondsAgo >= LOST_AFTER_SECONDS }));
}

/** A process renews its row once a minute. */
const HERE_SECONDS = 120;

/**
 * Returns whether this process began first of those of its version that serve now: it does the work that one process does for
 * all. For some minutes after a start or an end it can be true for two processes, or for none.
 */
export async function isFirstProcess(database: Database, uuid: string): Promise<boolean> {
  const [row] = await database.query<{ isFirst: boolean }>(
    (sql) => sql`
      select not exists (
               select from processes
                where version = ${VERSION}::text and id < ${uuid}::uuid
                  and seen_at > now() - ${HERE_SECONDS}::integer * interval '1 second') as "isFirst"`,
  );
  return row?.isFirst === true;
}
