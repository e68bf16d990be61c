/**
 * Opens the data folder. One process at a time owns it, with a lock that the kernel releases when the process ends.
 * The owner runs PostgreSQL until it releases the lock. A command that finds a service in the folder uses the
 * service's server. Every other process waits some seconds for the lock, or gets a refusal that names the owner.
 *
 * The owner always does the same steps, in whatever state the folder is: stop the remaining processes of an earlier
 * server, remove unfinished folders, unpack PostgreSQL and initialise the cluster if they are missing, start.
 */
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { makeDataFolder, refuseForeignFolder } from "../../base/host/mod.ts";
import type { Log } from "../../base/log.ts";
import type { FileLock, Platform } from "../../base/platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { reasonOf } from "../../base/system_error.ts";
import { type ClusterUser, findAccount } from "./_account.ts";
import {
  type Binaries,
  removeOtherBinaries,
  settleBinaries,
  unpackBinaries,
  versionOf,
} from "./_binaries.ts";
import { discardCluster, initialiseCluster, readClusterMajor } from "./_cluster.ts";
import { closeCluster, removeEmpty, removeUnfinished, shareWith } from "./_data_dir.ts";
import { type DataFault, NO_DATA_FAULT } from "./_data_fault.ts";
import { type HolderKind, readHolder, renderHolder } from "./_holder.ts";
import { type Layout, layoutOf } from "./_layout.ts";
import { useOperatorBinaries } from "./_operator_binaries.ts";
import { demandPostmasterFile, readPostmasterFile } from "./_postmaster_file.ts";
import {
  damagedData,
  inUse,
  lostData,
  NO_POSTGRES,
  noData,
  notReplaced,
  toRefusal,
  unfinishedRestore,
} from "./_refusals.ts";
import { sharedBuffers } from "./_settings.ts";
import { accepts, type EmbeddedAddress, openSocketFolder } from "./_socket.ts";
import { supervise } from "./_supervisor.ts";
import {
  createRestoreNote,
  findTraces,
  isThere,
  NO_RESTORE_NOTE,
  noteInstallation,
  type RestoreNote,
} from "./_traces.ts";
import { stopLeftovers } from "./leftovers.ts";

export { type DataFault, NO_DATA_FAULT } from "./_data_fault.ts";
export type { EmbeddedAddress } from "./_socket.ts";
export { NO_RESTORE_NOTE, type RestoreNote } from "./_traces.ts";

export interface EmbeddedOptions {
  readonly dataDir: string;
  /** A `serve` holds the folder for as long as it runs; a `command` ends soon, or uses the server of a `serve`. */
  readonly holder: HolderKind;
  /** Whether a folder without data is initialised (true) or refused (false). One that has lost its data never is. */
  readonly create: boolean;
  /**
   * Whether the caller restores a backup. Then a folder that has lost its database is initialised, too, and what an
   * interrupted restore has left is removed. Goes with `create`.
   */
  readonly restores?: boolean;
  readonly platform: Platform;
  /** A real clock: opening waits for other processes. */
  readonly clock: Clock;
  readonly log: Log;
  /** True by default. False is for tests: it is faster, but a power cut can destroy data. */
  readonly fsync?: boolean;
  /** PostgreSQL's settings; they override our own. */
  readonly settings?: Readonly<Record<string, string>>;
  /** How long to wait for another process that holds the folder, 10 s by default. */
  readonly waitMs?: number;
  /** How long PostgreSQL may take until it accepts connections, 120 s by default. */
  readonly startMs?: number;
  /** Called during each wait for another process or for PostgreSQL; true ends the wait. */
  readonly isInterrupted?: () => boolean;
  /** The folder where PostgreSQL is unpacked, the data folder by default. In another folder it is shared, and stays. */
  readonly binariesParent?: string;
  /** The operator's folder with `postgres` and `initdb`, to run in place of the programs inside. */
  readonly postgresBin?: string | undefined;
}

export interface EmbeddedServer {
  readonly address: EmbeddedAddress;
  /** Whether this process runs the server; otherwise a running service does. */
  readonly owned: boolean;
  readonly restoreNote: RestoreNote;
  /** What is wrong with the data while this process runs the server. */
  readonly dataFault: DataFault;
  /**
   * Stops the server if this process runs it, and releases the folder. The server stops in order until the deadline,
   * then by force, which takes up to 4 s more and loses no committed data. Call this once, after the end of all
   * connections.
   */
  stop(deadlineMs: number): Promise<void>;
}

/**
 * Opens the data folder and returns a PostgreSQL that accepts connections.
 *
 * Refuses if another process holds the folder, if the folder has no data and `create` is false, or if another major
 * version created the data. Refuses with `DATA_LOST` if the folder has lost its data, if the data is damaged, or if a
 * restore was interrupted. Also refuses if this user or the user of the cluster cannot use the folder. Rejects if
 * PostgreSQL cannot be unpacked, initialised or started; the message has its last lines.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer | Refusal> {
  const layout = layoutOf(options.dataDir);
  const { clock } = options;
  try {
    // Checked before the folder is created, so that a build without PostgreSQL leaves no folder behind.
    if ((await options.platform.postgresArchive()) === undefined) return NO_POSTGRES;
    if (!options.create && !isThere(layout.dataDir)) return noData(layout);
    const firstMade = (options.create ? makeDataFolder : refuseForeignFolder)(layout.dataDir);
    if (isRefusal(firstMade)) return firstMade;
    // Do not create a lock file in a folder that is not a data folder.
    if (!options.create && !isThere(layout.lock) && !isThere(layout.cluster)) return withoutCluster(layout);

    const deadline = clock.monotonicMs() + (options.waitMs ?? 10_000);
    for (;;) {
      const lock = options.platform.tryLock(layout.lock);
      if (lock !== undefined) return await openAsOwner(layout, lock, { ...options, firstMade });

      const holder = readHolder(layout.lock);
      if (holder?.kind === "serve" && options.holder === "serve") return inUse(layout, options.holder);
      if (holder?.kind === "serve" && holder.phase === "ready") {
        const server = await joinServer(layout);
        if (server !== undefined) return server;
      }
      if (options.isInterrupted?.() || clock.monotonicMs() > deadline) return inUse(layout, options.holder);
      await sleep(20);
    }
  } catch (error) {
    return toRefusal(error, layout);
  }
}

/** Refuses a folder without a cluster: it has lost its database, or it never had one. */
function withoutCluster(layout: Layout): Refusal {
  return refuseLost(layout) ?? noData(layout);
}

function refuseLost(layout: Layout): Refusal | undefined {
  if (isThere(layout.restoring)) return unfinishedRestore(layout);
  const traces = findTraces(layout);
  return traces.length === 0 ? undefined : lostData(layout, traces);
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

async function startServer(
  layout: Layout,
  lock: FileLock,
  options: EmbeddedOptions,
): Promise<EmbeddedServer | Refusal> {
  const { dataDir, cluster } = layout;
  const { clock, log, holder } = options;
  const fsync = options.fsync ?? true;
  lock.write(renderHolder({ kind: holder, pid: process.pid, phase: "starting" }));

  const made = await examineCluster(layout, options);
  if (isRefusal(made)) return made;
  const restoreNote = createRestoreNote(layout, { isClusterNew: made === undefined });
  // Before the first step that takes time, because a kill can come at any moment.
  if (options.restores && made === undefined) await restoreNote.leave();
  const account = findAccount(layout);
  if (isRefusal(account)) return account;
  if (account !== undefined) {
    const closed = shareWith(account, layout, options.binariesParent);
    if (closed !== undefined) return closed;
  }
  const binaries = await findBinaries(dataDir, account, options);
  if (isRefusal(binaries)) return binaries;
  if (made !== undefined && made !== binaries.major) {
    return refuse(
      "INVALID_REQUEST",
      `Cannot use the database in ${cluster}: PostgreSQL ${made} made it, and this executable has ` +
        `${binaries.major} inside; dump the database with PostgreSQL ${made} and load the dump into a new folder`,
    );
  }

  const stopped = await stopLeftovers({ cluster, clock, graceMs: 5000 });
  if (stopped > 0) log.warn("Stopped a PostgreSQL that an earlier process left running", { dataDir });
  removeUnfinished(dataDir);
  const closed = made !== undefined && closeCluster(layout);
  if (isRefusal(closed)) return closed;
  if (closed) log.warn("The folder of the database was closed: other users could change it", { dataDir });
  if (made === undefined) await initialiseCluster({ cluster, binaries, account, fsync });

  const supervisor = await supervise({
    layout,
    binaries,
    account,
    settings: { ...sharedBuffers(cluster), fsync: fsync ? "on" : "off", ...options.settings },
    startMs: options.startMs ?? 120_000,
    isInterrupted: options.isInterrupted ?? (() => false),
    clock,
    log,
  });
  if (!options.restores) {
    await noteInstallation(layout).catch((error: unknown) => {
      // The folder can be used without it, and a later start writes it.
      log.warn("Cannot write the file installation", { dataDir, reason: reasonOf(error) });
    });
  }
  const socket = openSocketFolder(cluster);
  lock.write(renderHolder({ kind: holder, pid: process.pid, phase: "ready" }));
  const tidied = tidyUp(binaries, options).catch((error: unknown) => {
    log.warn("Cannot tidy up the unpacked PostgreSQL", { reason: reasonOf(error) });
  });

  return {
    address: socket.address,
    owned: true,
    restoreNote,
    dataFault: supervisor.fault,
    async stop(deadlineMs) {
      try {
        await supervisor.stop(deadlineMs);
        await tidied;
      } finally {
        socket.close();
        lock.release();
      }
    },
  };
}

/**
 * Returns the major version of the cluster; undefined if there is none and one may be made. Refuses a folder that has
 * lost its database, or into which a restore was interrupted. A restore removes what that one has left.
 */
async function examineCluster(
  layout: Layout,
  { create, restores, clock, log }: EmbeddedOptions,
): Promise<string | Refusal | undefined> {
  const { cluster, dataDir } = layout;
  if (isThere(layout.restoring)) {
    if (!restores) return unfinishedRestore(layout);
    if (isThere(cluster)) {
      log.warn("An earlier restore into this folder has not ended: what it left is removed", { dataDir });
      await stopLeftovers({ cluster, clock, graceMs: 0 });
      discardCluster(cluster);
    }
  }
  const made = readClusterMajor(cluster);
  if (made !== undefined) return made;
  if (isThere(cluster)) {
    if (restores) return notReplaced(layout);
    return damagedData(layout, `${cluster} has no valid PG_VERSION`);
  }
  if (!create) return withoutCluster(layout);
  return restores ? undefined : refuseLost(layout);
}

/** Returns the operator's programs if `postgresBin` is set; otherwise unpacks the programs inside. */
async function findBinaries(
  dataDir: string,
  account: ClusterUser | undefined,
  { platform, postgresBin, binariesParent }: EmbeddedOptions,
): Promise<Binaries | Refusal> {
  const archive = await platform.postgresArchive();
  if (archive === undefined) return NO_POSTGRES;
  if (postgresBin !== undefined) {
    return useOperatorBinaries(postgresBin, { inside: versionOf(archive), account });
  }
  return await unpackBinaries(archive, {
    parent: binariesParent ?? dataDir,
    shared: binariesParent !== undefined,
  });
}

/** Syncs the unpacked programs and removes old ones. This can wait until the server runs. */
async function tidyUp(
  { folder }: Pick<Binaries, "folder">,
  { dataDir, binariesParent }: EmbeddedOptions,
): Promise<void> {
  // Either no programs were unpacked, or other data folders use the same programs.
  if (folder === undefined || binariesParent !== undefined) return;
  await settleBinaries(folder);
  removeOtherBinaries(layoutOf(dataDir).dataDir, folder);
}

/** Returns the server of the service that holds the folder; undefined if it does not answer yet. */
async function joinServer({ cluster }: Layout): Promise<EmbeddedServer | undefined> {
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
