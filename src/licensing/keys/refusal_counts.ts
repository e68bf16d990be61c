/**
 * Records why keys were refused: one row for each key, code and reason, with the time of the last refusal and the
 * number of all refusals. A request only counts in memory. The counts are written together later, so a request does
 * not wait for a write.
 *
 * A refusal is recorded if it may make a customer ask why the key does not work: see `EXPLAINED`. Errors in a single
 * request (its fields, its range) are not recorded. Failures of the service itself are in the log and are not recorded
 * either. A key that was never issued has no row, so nothing of it is stored. Customers do not pay by these counts: a
 * count may be too high after a statement with an unknown outcome.
 */
import { HOUR_MS } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import type { Code, Refusal } from "../../base/refusal.ts";
import { createWaitingRows, createWriteBehind, type Database, toTextArray } from "../../database/mod.ts";
import type { KeyRecord } from "./key_record.ts";
import { createRequestWatch } from "./too_many_requests.ts";

interface RefusalCountsOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** The time between two writes; 10 s by default: support asks the customer to try again, and then looks. */
  readonly intervalMs?: number;
}

const INTERVAL_MS = 10_000;
/** The longest pause between two tries while the database does not answer. */
const MAX_PAUSE_MS = 300_000;

/**
 * The codes that are recorded. A key has at most 22 rows with them: `INVALID_KEY` has two reasons, and too many
 * requests have the endpoint.
 */
const EXPLAINED: ReadonlySet<Code> = new Set<Code>([
  "INVALID_KEY",
  "KEY_EXPIRED",
  "KEY_NOT_FOUND",
  "LICENSE_REQUIRED",
  "MACHINE_LIMIT_REACHED",
  "NOT_CONFIGURED",
  "NOT_FOUND",
  "QUOTA_EXCEEDED",
  "RATE_LIMIT_EXCEEDED",
  "RELEASE_LIMIT_REACHED",
]);

/** The refusals of a key that one write adds to its row. */
interface RefusalsOfKey {
  readonly keyUuid: string;
  readonly code: Code;
  /** Empty if the code says it all. */
  readonly reason: string;
  readonly lastAtMs: number;
  readonly count: number;
}

export function createRefusalCounts({ database, clock, intervalMs = INTERVAL_MS }: RefusalCountsOptions) {
  const rows = createWaitingRows<RefusalsOfKey>({
    idOf: ({ keyUuid, code, reason }) => `${keyUuid} ${code} ${reason}`,
    merge: (one, { lastAtMs, count }) => ({
      ...one,
      lastAtMs: Math.max(one.lastAtMs, lastAtMs),
      count: one.count + count,
    }),
    write: (waiting) => addRefusalCounts(database, waiting, clock.now()),
  });
  const watch = createRequestWatch({ database, clock });
  const flush = async () => void (await Promise.all([rows.flush(), watch.flush()]));
  const pauseMs = () => Math.min(intervalMs * 2 ** rows.failures(), MAX_PAUSE_MS);
  return {
    ...createWriteBehind({ intervalMs, pauseMs, flush }),
    /** Notes the answer of an endpoint to a request with a key, and its refusal if it was refused. */
    note(
      { uuid }: Pick<KeyRecord, "uuid">,
      refusal: Pick<Refusal, "code" | "reason"> | undefined,
      endpoint: string,
    ): void {
      const isTooMany = refusal?.code === "RATE_LIMIT_EXCEEDED";
      watch.note(uuid, isTooMany);
      if (refusal === undefined || !EXPLAINED.has(refusal.code)) return;
      const { code } = refusal;
      const reason = isTooMany ? endpoint : (refusal.reason ?? "");
      rows.add({ keyUuid: uuid, code, reason, lastAtMs: clock.nowMs(), count: 1 });
    },
  };
}

/** For how long the refusals of an hour are kept: for a day, and the hour in which it began. */
const HOURS_KEPT_MS = 25 * HOUR_MS;
/** How many old rows a write deletes. A write comes every ten seconds. */
const MOST_DELETED = 1_000;

/** Adds refusals to the rows of their keys, and to those of their hours. Keys that do not exist are left out. */
async function addRefusalCounts(
  database: Database,
  rows: readonly RefusalsOfKey[],
  now: Date,
): Promise<void> {
  await database.query(
    (sql) => sql`
      with noted as materialized (
        select "keyUuid", code, reason, to_timestamp("lastAtMs" / 1000) as last_at, count
          from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb)
               as noted ("keyUuid" uuid, code text, reason text, "lastAtMs" double precision, count bigint)
         where exists (select from keys k where k.id = noted."keyUuid")
      ),
      old as (
        delete from refused_hours
         where (hour, key_id, code) in (
                 select hour, key_id, code from refused_hours
                  where hour < ${new Date(now.getTime() - HOURS_KEPT_MS)}::timestamptz
                  -- Few, so that the counts never wait for them, and in the order of the index.
                  order by hour, key_id, code limit ${MOST_DELETED}::integer for update skip locked)
      ),
      hours as (
        insert into refused_hours as h (hour, key_id, code, count)
        select date_trunc('hour', last_at, 'UTC'), "keyUuid", code, sum(count) from noted
         group by 1, 2, 3
         -- Every writer locks rows in this order, so two processes never wait for each other.
         order by 1, 2, code collate "C"
        on conflict (hour, key_id, code) do update set count = h.count + excluded.count
      )
      insert into refusals as r (key_id, code, reason, last_at, count)
      select "keyUuid", code, reason, last_at, count from noted
       -- Every writer locks rows in this order, so two processes never wait for each other.
       order by "keyUuid", code collate "C", reason collate "C"
      on conflict (key_id, code, reason) do update
        set last_at = greatest(r.last_at, excluded.last_at), count = r.count + excluded.count`,
  );
}

/** Deletes the refusals of all keys of accounts, as for the accounts of a demo. */
export async function deleteRefusalCounts(
  database: Database,
  accountUuids: readonly string[],
): Promise<void> {
  await database.query(
    (sql) => sql`
      with mine as (
        select k.id from keys k join licenses l on l.id = k.license_id
         where l.account_id = any(${toTextArray(accountUuids)}::uuid[])
      ),
      counted as (delete from too_many_requests where key_id in (select id from mine)),
      hours as (delete from refused_hours where key_id in (select id from mine))
      delete from refusals where key_id in (select id from mine)`,
  );
}

/** The refusals of one key with one code and one reason. */
export interface RefusalCount {
  readonly code: Code;
  /** Why the key was invalid, or the endpoint that got too many requests; null if the code says it all. */
  readonly reason: string | null;
  readonly lastAt: Date;
  readonly count: number;
}

/** Lists the reasons for which a key was refused, the latest refusal first. */
export async function listRefusalCounts(database: Database, keyUuid: string): Promise<RefusalCount[]> {
  return await database.read<RefusalCount>(
    (sql) => sql`
      select code, nullif(reason, '') as reason, last_at as "lastAt", count
        from refusals
       where key_id = ${keyUuid}::uuid
       order by last_at desc, code collate "C", reason collate "C"
       -- A bound, in case an earlier or later version records other codes: this version has at most 22 rows a key.
       limit 50`,
  );
}
