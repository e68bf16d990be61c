/**
 * The pulse: one statement, four times a second, that asks for the changes that were committed since the last one.
 *
 * It makes each change take effect in every process within a second, and needs no message that could be lost. Cached
 * keys are trusted only while the newest pulse that succeeded began less than a second ago, so an answer from the cache
 * takes every older change into account. Each change has the number of its transaction. Each pulse takes a snapshot of
 * the database, and reads the changes that its snapshot sees and the previous one did not see. So no change is missed,
 * however late its commit is, no change is read twice, however long its transaction is open, and no clock is needed.
 *
 * This is true only for one server. A promoted standby, or a server after a crash, may have lost transactions and
 * uses their numbers again, so a change may carry a number that an earlier snapshot saw already. So each answer names
 * its server and its connection; a crash ends every connection. If the server or the connection differs from that of
 * the last answer, the whole cache is dropped.
 */
import { type Clock, type Repetition, repeat } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { type Database, DatabaseUnavailable, renderFailureCause } from "../../database/mod.ts";
import type { KeyCache } from "./key_cache.ts";

export interface PulseOptions {
  readonly database: Database;
  readonly cache: KeyCache;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when a different server answers than before, or the same server after a restart. */
  readonly onOtherServer?: () => void;
  /** This process in `usage_changes.writer`. The pulse skips its counts, because this process knows them already. */
  readonly processUuid: string;
}

export type Pulse = ReturnType<typeof createPulse>;

const INTERVAL_MS = 250;
/** How long an answer of the database is trusted, counted from the time of the question. */
export const TRUST_MS = 1_000;
/**
 * Half of `TRUST_MS`: slower answers could not keep the cache trusted anyway. A connection that is dead after a
 * restart is detected and replaced while the previous pulse is still trusted.
 */
const DEADLINE_MS = 500;
/** A busy host, or a database that has just started, may answer the first pulse late. */
const FIRST_ATTEMPTS = 6;
/** After this long without a pulse, rows of `usage_changes` may have been deleted before this process read them. */
const COUNTS_KEPT_MS = 45_000;
/** If more rows than this change at once (an import, for example), the whole cache is dropped instead. */
const MAX_CHANGES = 2_000;
/** The longest time without the end of a pulse. Four begin each second, and each ends within {@linkcode DEADLINE_MS}. */
const STUCK_MS = 10_000;
/** As long as rows of `usage_changes` are kept. */
const READ_OWN_MS = 60_000;

interface Row {
  readonly snapshot: string;
  /** The identity of the server and the time of its start. */
  readonly server: string;
  readonly connection: string;
  /** True if more rows of one kind changed than one pulse reads, or a tier did. */
  readonly isCut: boolean;
  readonly licenses: readonly string[];
  readonly counts: readonly (readonly [licenseUuid: string, monthIndex: number, used: number])[];
}

/** Reads the changes since the snapshot `last`; the counts of this process only with `readsOwn`. */
async function readChanges(
  database: Database,
  {
    last,
    processUuid,
    readsOwn,
  }: { readonly last: string | null; readonly processUuid: string; readonly readsOwn: boolean },
): Promise<Row | undefined> {
  const [row] = await database.read<Row>(
    (sql) => {
      const isNew = sql`changed_xid >= pg_snapshot_xmin(${last}::pg_snapshot)
                        and not pg_visible_in_snapshot(changed_xid, ${last}::pg_snapshot)`;
      // Without statistics (after an import, for example) the planner expects that a third of a table is new,
      // and would read the whole table. `order by changed_xid limit …` makes it use the index in any case, and
      // `offset 0` prevents a join with the accounts that are not new.
      return sql`
      with now as (select pg_current_snapshot() as snapshot),
      -- Rows are counted before the rows of one license are merged, because rows beyond the limit are never read again.
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
      -- A standby refuses server_identity(), so its pulse fails.
      select concat_ws(' ', server_identity(), pg_postmaster_start_time()) as server,
             (select concat_ws(' ', pid, backend_start)
                from pg_stat_get_activity(pg_backend_pid())) as "connection",
             snapshot::text,
             greatest((select count(*) from by_key), (select count(*) from by_license),
                      (select count(*) from by_account)) > ${MAX_CHANGES}
               -- Every license may have another value.
               or exists (select from tiers where ${isNew}) as "isCut",
             (select coalesce(json_agg(license_id), '[]') from changed) as licenses,
             (select coalesce(json_agg(json_build_array(license_id, month_index, used)), '[]')
                from counted) as counts
        from now`;
    },
    { deadlineMs: DEADLINE_MS },
  );
  return row;
}

/** Creates the pulse. One long function, because its closures share the state and the time of the last pulse. */
export function createPulse(options: PulseOptions) {
  const { database, cache, clock, log, processUuid } = options;
  let lastSnapshot: string | null = null;
  let lastServer: string | undefined;
  let lastConnection: string | undefined;
  let readsOwnUntilMs = Number.NEGATIVE_INFINITY;
  let freshSinceMs = Number.NEGATIVE_INFINITY;
  let hasEnded = true;
  let aliveMs = Number.NEGATIVE_INFINITY;
  let repetition: Repetition | undefined;
  let running: Promise<void> | undefined;
  let stopped = false;
  let beats = 0;
  let failures = 0;
  let outages = 0;
  let connected = true;

  /** Returns true while the cache may be trusted and the database counts as connected. */
  const isFresh = (nowMs = clock.monotonicMs()) => nowMs - freshSinceMs < TRUST_MS;

  async function pollChanges(): Promise<void> {
    const beganMs = clock.monotonicMs();
    const last = lastSnapshot;
    const row = await readChanges(database, { last, processUuid, readsOwn: beganMs < readsOwnUntilMs });
    if (row === undefined) return;
    // This answer contains every change since the last snapshot, however old that is, except counts, whose rows
    // are kept for a minute.
    const isLate = beganMs - freshSinceMs > COUNTS_KEPT_MS;
    const isOther = row.server !== lastServer || row.connection !== lastConnection;
    if (isOther || isLate || row.isCut) cache.forgetAll();
    else for (const license of row.licenses) cache.forgetLicense(license);
    for (const [license, monthIndex, used] of row.counts)
      cache.updateUsedCount(license, { monthIndex, used });
    if (lastServer !== undefined && row.server !== lastServer) {
      log.warn("The database is another server than before, or was started again: the cache is dropped");
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

  /**
   * Runs a pulse now instead of at the next quarter of a second. One runs at a time: a call during a pulse waits for its
   * end and then runs another one.
   */
  async function beat(): Promise<void> {
    while (running !== undefined) await running.catch(() => {});
    running = pollChanges();
    try {
      await running;
    } finally {
      running = undefined;
      hasEnded = true;
    }
  }

  /** Runs a pulse and returns the pause until the next one: four pulses a second, and no pause after a slow one. */
  async function beatInTime(): Promise<number> {
    const beganMs = clock.monotonicMs();
    try {
      await beat();
    } catch (error) {
      failures++;
      if (connected && !stopped) {
        outages++;
        log.error("The database does not answer: requests are refused until it does", {
          reason: renderFailureCause(error),
        });
        connected = false;
      }
    }
    return Math.max(0, INTERVAL_MS - (clock.monotonicMs() - beganMs));
  }

  return {
    /** Starts the pulse. Resolves after the first pulse; throws if it fails, or is late six times. */
    async start() {
      for (let attempt = 1; ; attempt++) {
        try {
          await beat();
          break;
        } catch (error) {
          const isLate = error instanceof DatabaseUnavailable && error.code === "deadline";
          if (!isLate || stopped || attempt === FIRST_ATTEMPTS) throw error;
        }
      }
      if (!stopped) repetition = repeat(INTERVAL_MS, beatInTime);
    },
    async stop() {
      stopped = true;
      repetition?.stop();
    },
    isFresh,
    /** Returns false if no pulse has ended for {@linkcode STUCK_MS}, whether it succeeded or failed. */
    isAlive() {
      // A process that was frozen can be asked before its next pulse ends. So a pulse that has ended since the last
      // question is enough.
      if (hasEnded) aliveMs = clock.monotonicMs();
      hasEnded = false;
      return clock.monotonicMs() - aliveMs < STUCK_MS;
    },
    beat,
    /** Makes the pulse read this process's own counts too, for a minute: after a commit with an unknown outcome. */
    readOwnCounts() {
      readsOwnUntilMs = clock.monotonicMs() + READ_OWN_MS;
    },
    stats: () => ({ beats, failures, outages }),
  };
}
