/**
 * The pulse: one statement four times a second that asks what was committed since the last one.
 *
 * It is what makes a change hold everywhere within a second without anything that could be lost: cached
 * keys are trusted only while the newest pulse that succeeded began less than a second ago, so whoever
 * answers from the cache knows of everything that is older. Changes carry the transaction that made them,
 * and a pulse reads those that its snapshot sees and the last one's did not: nothing is missed, however late
 * it commits, nothing is read twice, however long a transaction stays open, and no clock is involved.
 *
 * All that holds on one server. A standby that was promoted, or a server after a crash, may have lost transactions,
 * and gives their numbers to others: a change may then carry a number that seems to have been seen. So each answer
 * names its server, and its connection, which ends with every crash. When the server or the connection is another
 * than before, the whole cache is dropped.
 */
import { type Clock, type Repetition, repeat } from "../clock.ts";
import type { Database } from "../database/mod.ts";
import type { Log } from "../log.ts";
import { reasonOf } from "../system_error.ts";
import type { KeyCache } from "./key_cache.ts";

export interface PulseOptions {
  readonly database: Database;
  readonly cache: KeyCache;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when another server answers than before, or when the same one was started again. */
  readonly onOtherServer?: () => void;
  /** This process, as `usage_changes.writer` names it: it knows its own counts already. */
  readonly processUuid: string;
}

export interface Pulse {
  /** Resolves when the first pulse succeeded; throws what it met otherwise. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** True while what is cached may be trusted, and the database counts as connected. */
  isFresh(nowMs?: number): boolean;
  /** Feels the pulse now instead of at the next quarter of a second. */
  beat(): Promise<void>;
  /** Reads this process's own counts too, for a minute: after a commit of which nobody knows its end. */
  doubtOwnCounts(): void;
  stats(): { readonly beats: number; readonly failures: number; readonly outages: number };
}

const INTERVAL_MS = 250;
/** For so long an answer of the database is trusted, counted from the moment of the question. */
export const TRUST_MS = 1_000;
/**
 * What is answered later than half of the trust cannot keep it up anyway. A connection that a restart has left
 * deaf is found out and replaced while the pulse before it is still trusted.
 */
const DEADLINE_MS = 500;
/** After so long without a pulse, rows of `usage_changes` may have been deleted unread. */
const COUNTS_KEPT_MS = 45_000;
/** More changed rows than this at once (an import, say), and the whole cache goes instead. */
const MAX_CHANGES = 2_000;
/** As long as rows of `usage_changes` live. */
const DOUBT_MS = 60_000;

interface Row {
  readonly snapshot: string;
  /** The cluster, its timeline, which a promotion ends, and its start. */
  readonly server: string;
  readonly connection: string;
  /** True where more rows of a kind changed than are read at once. */
  readonly isCut: boolean;
  readonly licenses: readonly string[];
  readonly counts: readonly (readonly [licenseUuid: string, monthIndex: number, used: number])[];
}

/** Reads what was committed since the snapshot `last`, the counts of this process only on request. */
async function readChanges(
  database: Database,
  {
    last,
    processUuid,
    readsOwn,
  }: { readonly last: string | null; readonly processUuid: string; readonly readsOwn: boolean },
): Promise<Row | undefined> {
  const [row] = await database.query<Row>(
    (sql) => {
      const isNew = sql`changed_xid >= pg_snapshot_xmin(${last}::pg_snapshot)
                        and not pg_visible_in_snapshot(changed_xid, ${last}::pg_snapshot)`;
      // Without statistics (after an import, say) the planner takes a third of a table for new and would
      // read all of it. Who wants the first ones in the order of an index gets that index, whatever the
      // planner expects; and `offset 0` keeps it from joining the accounts that are not new.
      return sql`
      with now as (select pg_current_snapshot() as snapshot),
      -- Counted before those of one license become one: what is cut off here is never read again.
      by_key as (
        select license_id from keys where ${isNew} order by changed_xid limit ${MAX_CHANGES + 1}
      ),
      by_license as (
        select id as license_id from licenses where ${isNew} order by changed_xid limit ${MAX_CHANGES + 1}
      ),
      by_account as (
        select l.id as license_id from accounts
          cross join lateral (select id from licenses where account_id = accounts.id offset 0) l
         where ${isNew} order by changed_xid limit ${MAX_CHANGES + 1}
      ),
      changed as (
        select license_id from by_key
        union select license_id from by_license
        union select license_id from by_account
      ),
      counted as (
        select license_id, extract(year from month) * 12 + extract(month from month) - 1 as month_index,
               max(count.used) as used
          from usage_changes c, unnest(c.license_ids, c.used) as count (license_id, used)
         where ${isNew} and (writer <> ${processUuid}::uuid or ${readsOwn}::boolean)
         group by 1, 2
      )
      -- These take some 60 µs in all. A standby refuses pg_current_wal_lsn(), so it gives no pulse.
      select concat_ws(' ', (select system_identifier from pg_control_system()),
                       left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_postmaster_start_time()) as server,
             (select concat_ws(' ', pid, backend_start)
                from pg_stat_get_activity(pg_backend_pid())) as "connection",
             snapshot::text,
             greatest((select count(*) from by_key), (select count(*) from by_license),
                      (select count(*) from by_account)) > ${MAX_CHANGES} as "isCut",
             (select coalesce(json_agg(license_id), '[]') from changed) as licenses,
             (select coalesce(json_agg(json_build_array(license_id, month_index, used)), '[]')
                from counted) as counts
        from now`;
    },
    { deadlineMs: DEADLINE_MS, isRead: true },
  );
  return row;
}

/** Stays one long function: its closures share what the last pulse saw, and when. */
export function createPulse(options: PulseOptions): Pulse {
  const { database, cache, clock, log, processUuid } = options;
  let lastSnapshot: string | null = null;
  let lastServer: string | undefined;
  let lastConnection: string | undefined;
  let doubtedUntilMs = Number.NEGATIVE_INFINITY;
  let freshSinceMs = Number.NEGATIVE_INFINITY;
  let repetition: Repetition | undefined;
  let running: Promise<void> | undefined;
  let stopped = false;
  let beats = 0;
  let failures = 0;
  let outages = 0;
  let connected = true;

  const isFresh = (nowMs = clock.monotonicMs()) => nowMs - freshSinceMs < TRUST_MS;

  async function pollChanges(): Promise<void> {
    const beganMs = clock.monotonicMs();
    const last = lastSnapshot;
    const row = await readChanges(database, { last, processUuid, readsOwn: beganMs < doubtedUntilMs });
    if (row === undefined) return;
    // Whatever was committed since the last snapshot is in this answer, however long ago that was, but for
    // counts, whose rows live for a minute.
    const isLate = beganMs - freshSinceMs > COUNTS_KEPT_MS;
    const isOther = row.server !== lastServer || row.connection !== lastConnection;
    if (isOther || isLate || row.isCut) cache.forgetAll();
    else for (const license of row.licenses) cache.forgetLicense(license);
    for (const [license, monthIndex, used] of row.counts)
      cache.updateUsedCount(license, { monthIndex, used });
    if (lastServer !== undefined && row.server !== lastServer) {
      log.warn(
        "The database is another server than before, or was started again: what was cached is dropped",
      );
      options.onOtherServer?.();
    }
    lastServer = row.server;
    lastConnection = row.connection;
    lastSnapshot = row.snapshot;
    freshSinceMs = beganMs;
    beats++;
    if (!connected) log.info("The database answers again");
    connected = true;
  }

  /** One pulse at a time: who asks while one runs gets the one after it. */
  async function beat(): Promise<void> {
    while (running !== undefined) await running.catch(() => {});
    running = pollChanges();
    try {
      await running;
    } finally {
      running = undefined;
    }
  }

  /** Four beats a second, whatever one takes: a slow one is followed by the next at once. */
  async function beatInTime(): Promise<number> {
    const beganMs = clock.monotonicMs();
    try {
      await beat();
    } catch (error) {
      failures++;
      if (connected && !stopped) {
        outages++;
        log.error("The database does not answer: requests are refused until it does", {
          reason: reasonOf(error),
        });
        connected = false;
      }
    }
    return Math.max(0, INTERVAL_MS - (clock.monotonicMs() - beganMs));
  }

  return {
    async start() {
      await beat();
      repetition = repeat(INTERVAL_MS, beatInTime);
    },
    async stop() {
      stopped = true;
      repetition?.stop();
    },
    isFresh,
    beat,
    doubtOwnCounts() {
      doubtedUntilMs = clock.monotonicMs() + DOUBT_MS;
    },
    stats: () => ({ beats, failures, outages }),
  };
}
