/**
 * Keeps the row of this process in `processes`, with one statement a minute.
 *
 * Each statement has a connection of its own, which is closed afterwards: so it takes no connection from the clients,
 * and a statement that misses its deadline does not replace their pool. A failure is logged once, not each minute.
 */
import type { Clock } from "../../base/clock.ts";
import { type Log, silentLog } from "../../base/log.ts";
import { VERSION } from "../../base/version.ts";
import {
  createWriteBehind,
  type Database,
  type DatabaseAddress,
  openDatabase,
  renderFailureCause,
  type WriteBehind,
} from "../mod.ts";
import type { ServingProcess } from "./list_processes.ts";
import { noteStarts } from "./starts.ts";

interface PresenceOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly address: DatabaseAddress;
  readonly process: Pick<ServingProcess, "uuid" | "host" | "address" | "rateLimits">;
  /** How long the answers of this process took since its start. */
  readonly latency: () => Pick<ServingProcess, "p50Ms" | "p95Ms">;
}

const INTERVAL_MS = 60_000;
const CONNECTION = { log: silentLog, maxConnections: 1, deadlineMs: 5_000 };
const FAILED = "Could not write that this process serves the database: it is tried again each minute";

/**
 * Creates the part. Its start does not wait for the database. Its stop removes the row; if the database does not answer,
 * the row is lost after five minutes.
 */
export function createPresence({ address, process: me, latency, clock, log }: PresenceOptions): WriteBehind {
  let renewal = Promise.resolve();
  let isStopped = false;
  let hasFailed = false;
  let isStartNoted = false;

  async function write(work: (database: Database) => Promise<unknown>) {
    await using database = openDatabase(address, { ...CONNECTION, clock });
    try {
      await work(database);
      if (hasFailed) log.info("It was written again that this process serves the database");
      hasFailed = false;
    } catch (error) {
      const reason = renderFailureCause(error);
      if (!hasFailed && !isStopped) log.warn(FAILED, { reason });
      hasFailed = true;
    }
  }

  /**
   * Also notes the start of this process and of the server, if they are not noted yet. Deletes old rows, and the rows that a
   * killed process left at this address, before they count as lost. Other processes may do the same.
   */
  function renew() {
    const { p50Ms, p95Ms } = latency();
    return write(async (database) => {
      await database.query(
        (sql) => sql`
          with old as (
            select id from processes
             where id <> ${me.uuid}::uuid
               and (seen_at < now() - interval '1 day'
                    or host = ${me.host} and address = ${me.address} and seen_at < now() - interval '2 minutes')
               for update skip locked
          ),
          deleted as (delete from processes p using old where p.id = old.id),
          ${noteStarts(sql, isStartNoted ? undefined : me.uuid)}
          insert into processes (id, version, host, address, rate_limits, p50_ms, p95_ms)
          values (${me.uuid}::uuid, ${VERSION}, ${me.host}, ${me.address}, ${me.rateLimits}, ${p50Ms}::float8, ${p95Ms}::float8)
          on conflict (id) do update
            set seen_at = excluded.seen_at, p50_ms = excluded.p50_ms, p95_ms = excluded.p95_ms`,
      );
      isStartNoted = true;
    });
  }

  async function remove() {
    isStopped = true;
    await renewal;
    // A database that did not answer within the last minute must not delay the stop.
    if (hasFailed) return;
    await write((database) =>
      database.query((sql) => sql`delete from processes where id = ${me.uuid}::uuid`),
    );
  }

  return createWriteBehind({
    intervalMs: 0,
    pauseMs: () => INTERVAL_MS,
    flush() {
      renewal = renew();
      return renewal;
    },
    writeAll: remove,
  });
}
