/**
 * Opens the data folder. One process at a time owns it, with a lock that the kernel releases when the process ends.
 * The owner runs PostgreSQL until it releases the lock. A command that finds a service in the folder uses the
 * service's server. Every other process waits some seconds for the lock, and then gets a refusal that names the owner.
 */
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { makeDataFolder, refuseForeignFolder } from "../../base/host/mod.ts";
import type { FileLock } from "../../base/platform/mod.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { removeEmpty } from "./_data_dir.ts";
import { NO_DATA_FAULT } from "./_data_fault.ts";
import { refuseLost, withoutCluster } from "./_examine_cluster.ts";
import { readHolder } from "./_holder.ts";
import { type Layout, layoutOf } from "./_layout.ts";
import { demandPostmasterFile, readPostmasterFile } from "./_postmaster_file.ts";
import { inUse, NO_POSTGRES, noData, noService, toRefusal } from "./_refusals.ts";
import { accepts, openSocketFolder } from "./_socket.ts";
import { startServer } from "./_start_server.ts";
import { isThere, NO_RESTORE_NOTE } from "./_traces.ts";
import type { EmbeddedOptions, EmbeddedServer } from "./embedded_server.ts";

/**
 * Opens the data folder and returns a PostgreSQL that accepts connections.
 *
 * Refuses if another process holds the folder, if the folder has no data and `create` is false, or if another major
 * version created the data. Refuses with `DATA_LOST` if the folder has lost its data, if the data is damaged, or if a
 * restore was interrupted. With `joins`, an empty folder is only one in which no service runs yet. Also refuses if this
 * user or the user of the cluster cannot use the folder. Rejects if PostgreSQL cannot be unpacked, initialised or started;
 * the message has its last lines.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer | Refusal> {
  const layout = layoutOf(options.dataDir);
  const { clock } = options;
  try {
    // Checked before the folder is created, so that a build without PostgreSQL leaves no folder behind.
    if ((await options.platform.postgresArchive()) === undefined) return NO_POSTGRES;
    if (!options.create && !isThere(layout.dataDir)) return noData(layout);
    if (options.joins) return (await joinService(layout)) ?? refuseToJoin(layout);
    const firstMade = (options.create ? makeDataFolder : refuseForeignFolder)(layout.dataDir);
    if (isRefusal(firstMade)) return firstMade;
    // Do not create a lock file in a folder that is not a data folder.
    if (!options.create && !isThere(layout.lock) && !isThere(layout.cluster)) return withoutCluster(layout);

    const deadline = clock.monotonicMs() + (options.waitMs ?? 10_000);
    for (;;) {
      const lock = options.platform.tryLock(layout.lock);
      if (lock !== undefined) return await openAsOwner(layout, lock, { ...options, firstMade });

      if (readHolder(layout.lock)?.kind === "serve" && options.holder === "serve")
        return inUse(layout, options.holder);
      const server = await joinService(layout);
      if (server !== undefined) return server;
      if (options.isInterrupted?.() || clock.monotonicMs() > deadline) return inUse(layout, options.holder);
      await sleep(20);
    }
  } catch (error) {
    return toRefusal(error, layout);
  }
}

async function openAsOwner(
  layout: Layout,
  lock: FileLock,
  options: EmbeddedOptions & { readonly firstMade: string | undefined },
): Promise<EmbeddedServer | Refusal> {
  const wasInterrupted = isThere(layout.restoring);
  try {
    const server = await startServer(layout, lock, options);
    if (isRefusal(server)) {
      // A refused restore has changed nothing.
      if (options.restores && !wasInterrupted) rmSync(layout.restoring, { force: true });
      if (options.firstMade !== undefined) removeEmpty(layout, options.firstMade);
      lock.release();
    }
    return server;
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Says why no service can be used: its database is lost, a restore was interrupted, or no service runs there yet. */
function refuseToJoin(layout: Layout): Refusal {
  // A process that holds the folder may be making its database, or restoring it.
  const mayCome =
    readHolder(layout.lock) !== undefined || (isThere(layout.cluster) && !isThere(layout.restoring));
  return (mayCome ? undefined : refuseLost(layout)) ?? noService(layout);
}

/** Returns the server of the service that holds the folder; undefined if there is none, or if it does not answer yet. */
async function joinService({ cluster, lock }: Layout): Promise<EmbeddedServer | undefined> {
  const holder = readHolder(lock);
  if (holder?.kind !== "serve" || holder.phase !== "ready") return undefined;
  if (readPostmasterFile(cluster)?.status !== "ready") {
    // If the file is only missing, the caller tries again.
    demandPostmasterFile(cluster);
    return undefined;
  }
  const socket = openSocketFolder(cluster);
  if (!(await accepts(socket.address.socketPath))) {
    socket.close();
    return undefined;
  }
  return {
    address: socket.address,
    owned: false,
    restoreNote: NO_RESTORE_NOTE,
    dataFault: NO_DATA_FAULT,
    stop: () => Promise.resolve(socket.close()),
  };
}
