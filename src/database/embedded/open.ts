/**
 * Opens the data folder. One process at a time owns it, by a lock that the kernel takes back when the
 * process ends, and runs PostgreSQL for as long as it does. A command that finds a service there works
 * with that service's server; everybody else waits a while for his turn, or is told who is in the way.
 *
 * Whoever gets the lock takes the same path, whatever came before: stop what is left of an earlier
 * server, clear away what was left unfinished, unpack and initialise what is missing, start.
 */
import { lstatSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../clock.ts";
import { refuseForeignFolder } from "../../host/mod.ts";
import type { Log } from "../../log.ts";
import type { FileLock, Platform } from "../../platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { reasonOf } from "../../system_error.ts";
import { type Account, findAccount } from "./_account.ts";
import {
  type Binaries,
  removeOtherBinaries,
  settleBinaries,
  unpackBinaries,
  versionOf,
} from "./_binaries.ts";
import { initialiseCluster, readClusterMajor } from "./_cluster.ts";
import { prepareDataDir, removeEmpty, removeUnfinished, shareWith } from "./_data_dir.ts";
import { type HolderKind, readHolder, renderHolder } from "./_holder.ts";
import { type Layout, layoutOf } from "./_layout.ts";
import { useOperatorBinaries } from "./_operator_binaries.ts";
import { demandPostmasterFile, readPostmasterFile } from "./_postmaster_file.ts";
import { held, noData, nothingInside, toRefusal } from "./_refusals.ts";
import { accepts, type EmbeddedAddress, openSocketFolder } from "./_socket.ts";
import { type EmbeddedState, supervise } from "./_supervisor.ts";
import { stopLeftovers } from "./leftovers.ts";

export type { EmbeddedAddress } from "./_socket.ts";
export type { EmbeddedState } from "./_supervisor.ts";

export interface EmbeddedOptions {
  readonly dataDir: string;
  /** A `serve` holds the folder for as long as it runs; a `command` is soon done, or joins a `serve`. */
  readonly holder: HolderKind;
  /** Whether a folder without data is initialised or refused. */
  readonly create: boolean;
  readonly platform: Platform;
  /** A real one: this waits for other processes. */
  readonly clock: Clock;
  readonly log: Log;
  /** True by default; false, for tests, trades the safety of data in a power cut for speed. */
  readonly fsync?: boolean;
  /** PostgreSQL's settings, over our own. */
  readonly settings?: Readonly<Record<string, string>>;
  /** How long to wait for another process that holds the folder, 10 s by default. */
  readonly waitMs?: number;
  /** How long PostgreSQL may take until it accepts connections, 120 s by default. */
  readonly startMs?: number;
  /** Asked during each wait, for another process or for PostgreSQL; true gives up. */
  readonly isInterrupted?: () => boolean;
  /** Where PostgreSQL is unpacked, the data folder by default; elsewhere it is shared, and stays. */
  readonly binariesParent?: string;
  /** The operator's folder of `postgres` and `initdb`, to run in place of those inside. */
  readonly postgresBin?: string | undefined;
}

export interface EmbeddedServer {
  readonly address: EmbeddedAddress;
  /** Whether the server is ours; otherwise it is that of a running service. */
  readonly owned: boolean;
  /**
   * Stops the server if it is ours (in order until the deadline, then by force, which takes up to 4 s
   * more and loses nothing that was committed), and gives the folder back. Call it once; end the
   * connections before.
   */
  stop(deadlineMs: number): Promise<void>;
  check(): EmbeddedState;
}

/**
 * Opens the data folder and gives a PostgreSQL that accepts connections.
 *
 * Gives a refusal where the folder is held by another process, has no data and `create` is false, was
 * made by another major version, or cannot be had by this user or by the user the cluster is to run as.
 * Rejects where PostgreSQL cannot be unpacked, initialised or started; the message has its last lines.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer | Refusal> {
  const layout = layoutOf(options.dataDir);
  const { clock } = options;
  try {
    // Before the folder is made: a build without a PostgreSQL leaves nothing behind.
    if ((await options.platform.postgresArchive()) === undefined) return nothingInside();
    if (!options.create && !isThere(layout.dataDir)) return noData(layout);
    const foreign = refuseForeignFolder(layout.dataDir, { mayBeMade: options.create });
    if (foreign !== undefined) return foreign;
    const firstMade = options.create ? prepareDataDir(layout.dataDir) : undefined;
    if (isRefusal(firstMade)) return firstMade;
    // Not even a lock file for a folder that is no data folder.
    if (!options.create && !isThere(layout.lock) && !isThere(layout.cluster)) return noData(layout);

    const deadline = clock.monotonicMs() + (options.waitMs ?? 10_000);
    for (;;) {
      const lock = options.platform.tryLock(layout.lock);
      if (lock !== undefined) return await openAsOwner(layout, lock, { ...options, firstMade });

      const holder = readHolder(layout.lock);
      if (holder?.kind === "serve" && options.holder === "serve") return held(layout, options.holder);
      if (holder?.kind === "serve" && holder.phase === "ready") {
        const server = await joinServer(layout);
        if (server !== undefined) return server;
      }
      if (options.isInterrupted?.() || clock.monotonicMs() > deadline) return held(layout, options.holder);
      await sleep(20);
    }
  } catch (error) {
    return toRefusal(error, layout);
  }
}

/** Throws when this user may not look into the folder: whether the file is there is then unknown. */
function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

async function openAsOwner(
  layout: Layout,
  lock: FileLock,
  options: EmbeddedOptions & { readonly firstMade: string | undefined },
): Promise<EmbeddedServer | Refusal> {
  try {
    const server = await startServer(layout, lock, options);
    if (isRefusal(server)) {
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

  const made = readClusterMajor(cluster);
  if (made === undefined && !options.create) return noData(layout);
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
        `${binaries.major} inside; dump it with the one that made it and load the dump into a new folder`,
    );
  }

  const stopped = await stopLeftovers({ cluster, clock, graceMs: 5000 });
  if (stopped > 0) log.warn("Stopped a PostgreSQL that an earlier process left running", { dataDir });
  removeUnfinished(dataDir);
  if (made === undefined) await initialiseCluster({ cluster, binaries, account, fsync });

  const supervisor = await supervise({
    cluster,
    binaries,
    account,
    settings: { fsync: fsync ? "on" : "off", ...options.settings },
    startMs: options.startMs ?? 120_000,
    isInterrupted: options.isInterrupted ?? (() => false),
    clock,
    log,
  });
  const socket = openSocketFolder(cluster);
  lock.write(renderHolder({ kind: holder, pid: process.pid, phase: "ready" }));
  const tidied = tidyUp(binaries, options).catch((error: unknown) => {
    log.warn("Cannot tidy up the unpacked PostgreSQL", { reason: reasonOf(error) });
  });

  return {
    address: socket.address,
    owned: true,
    check: supervisor.check,
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

/** The operator's programs when a folder is named, else those inside, unpacked. */
async function findBinaries(
  dataDir: string,
  account: Account | undefined,
  { platform, postgresBin, binariesParent }: EmbeddedOptions,
): Promise<(Binaries & { readonly folder?: string }) | Refusal> {
  const archive = await platform.postgresArchive();
  if (archive === undefined) return nothingInside();
  if (postgresBin !== undefined) {
    return useOperatorBinaries(postgresBin, { inside: versionOf(archive), account });
  }
  return await unpackBinaries(archive, {
    parent: binariesParent ?? dataDir,
    shared: binariesParent !== undefined,
  });
}

/** What has time until the server runs. */
async function tidyUp(
  { folder }: { readonly folder?: string },
  { dataDir, binariesParent }: EmbeddedOptions,
): Promise<void> {
  // Nothing was unpacked, or other data folders use the same programs.
  if (folder === undefined || binariesParent !== undefined) return;
  await settleBinaries(folder);
  removeOtherBinaries(layoutOf(dataDir).dataDir, folder);
}

/** Undefined where the server of the service that holds the folder does not answer, for now. */
async function joinServer({ cluster }: Layout): Promise<EmbeddedServer | undefined> {
  const readState = (): EmbeddedState => {
    const file = readPostmasterFile(cluster);
    const ready = file?.status === "ready";
    const pid = ready ? file.pid : undefined;
    return { state: ready ? "ready" : "restarting", pid, restarts: 0, lastFailure: undefined };
  };
  if (readState().state !== "ready") {
    // Otherwise the caller looks again.
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
    check: readState,
    stop: () => Promise.resolve(socket.close()),
  };
}
