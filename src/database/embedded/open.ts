/**
 * Opens the data folder. One process at a time owns it, by a lock that the kernel takes back when the
 * process ends, and runs PostgreSQL for as long as it does. A command that finds a service there works
 * with that service's server; everybody else waits a while for his turn, or is told who is in the way.
 *
 * Whoever gets the lock takes the same path, whatever came before: stop what is left of an earlier
 * server, clear away what was left unfinished, unpack and initialise what is missing, start.
 */
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { FileLock, Platform } from "../../platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { type Account, findAccount, findClosedFolder } from "./_account.ts";
import { removeOtherBinaries, settleBinaries, unpackBinaries } from "./_binaries.ts";
import { database, initialiseCluster, readClusterMajor, superuser } from "./_cluster.ts";
import { codeOf, reasonOf } from "./_errors.ts";
import { type HolderKind, readHolder, renderHolder } from "./_holder.ts";
import { isUnfinished, type Layout, layoutOf } from "./_layout.ts";
import { readPostmasterFile } from "./_postmaster_file.ts";
import { type EmbeddedState, supervise } from "./_supervisor.ts";
import { stopLeftovers } from "./leftovers.ts";

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
  /** Where PostgreSQL is unpacked, the data folder by default; elsewhere it is shared, and stays. */
  readonly binariesParent?: string;
}

/** How the driver gets to the server. */
export interface EmbeddedAddress {
  /** Good in this process only, and only until `stop`: it goes through an open descriptor. */
  readonly socketPath: string;
  readonly user: string;
  readonly database: string;
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
    const firstMade = options.create ? prepareDataDir(layout.dataDir) : undefined;
    // Not even a lock file for a folder that is no data folder.
    if (!options.create && !existsSync(layout.lock) && !existsSync(layout.cluster)) return noData(layout);

    const deadline = clock.monotonicMs() + (options.waitMs ?? 10_000);
    for (;;) {
      const lock = options.platform.tryLock(layout.lock);
      if (lock !== undefined) return await openAsOwner(layout, lock, { ...options, firstMade });

      const holder = readHolder(layout.lock);
      if (holder?.kind === "serve" && options.holder === "serve") return held(layout, options);
      if (holder?.kind === "serve" && holder.phase === "ready") {
        const server = await joinServer(layout);
        if (server !== undefined) return server;
      }
      if (clock.monotonicMs() > deadline) return held(layout, options);
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
  const archive = await options.platform.postgresArchive();
  if (archive === undefined) return nothingInside();
  const binaries = await unpackBinaries(archive, {
    parent: options.binariesParent ?? dataDir,
    shared: options.binariesParent !== undefined,
  });
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
    binaries: binaries.folder,
    account,
    settings: { fsync: fsync ? "on" : "off", ...options.settings },
    startMs: options.startMs ?? 120_000,
    clock,
    log,
  });
  const socket = openSocketFolder(cluster);
  lock.write(renderHolder({ kind: holder, pid: process.pid, phase: "ready" }));
  const tidied = tidyUp(binaries.folder, options).catch((error: unknown) => {
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

/** What has time until the server runs. */
async function tidyUp(binaries: string, options: EmbeddedOptions): Promise<void> {
  if (options.binariesParent !== undefined) return;
  await settleBinaries(binaries);
  removeOtherBinaries(layoutOf(options.dataDir).dataDir, binaries);
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
    // Says no only where it may not be looked at; otherwise the caller looks again.
    closeSync(openSync(cluster, constants.O_RDONLY | constants.O_DIRECTORY));
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

function accepts(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    const end = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.setTimeout(1000, () => end(false));
    socket.on("connect", () => end(true));
    socket.on("error", () => end(false));
  });
}

/** A unix socket's path may have 107 bytes; through a descriptor of its folder it has some thirty. */
function openSocketFolder(cluster: string): { address: EmbeddedAddress; close(): void } {
  const fd = openSync(cluster, constants.O_RDONLY | constants.O_DIRECTORY);
  const socketPath = `/proc/self/fd/${fd}/.s.PGSQL.5432`;
  return { address: { socketPath, user: superuser, database }, close: () => closeSync(fd) };
}

/** Gives the first of the folders that had to be made, undefined where the data folder was there. */
function prepareDataDir(dataDir: string): string | undefined {
  const firstMade = mkdirSync(dataDir, { recursive: true });
  if (firstMade !== undefined) chmodSync(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700);
  return firstMade;
}

/**
 * Takes back what was made for a start that was refused, with its lock: whoever waits for that would be
 * refused as well. A folder with anything else in it stays, and so do those above it.
 */
function removeEmpty({ dataDir, lock }: Layout, firstMade: string): void {
  try {
    rmSync(lock, { force: true });
    for (let folder = dataDir; ; folder = dirname(folder)) {
      rmdirSync(folder);
      if (folder === firstMade) return;
    }
  } catch {
    // Something else is there by now.
  }
}

/** Lets the user of the cluster pass through the data folder; a refusal where one above is closed. */
function shareWith(account: Account, layout: Layout, binariesParent?: string): Refusal | undefined {
  const { uid, mode } = statSync(layout.dataDir);
  if (uid === 0 && (mode & 0o111) !== 0o111) chmodSync(layout.dataDir, (mode & 0o7777) | 0o111);
  // Where the folder is another user's, the lock must not stay root's, or he could not start any more.
  if (uid !== 0) chownSync(layout.lock, account.uid, account.gid);
  for (const folder of [layout.dataDir, binariesParent ?? layout.dataDir]) {
    const closed = findClosedFolder(folder, account);
    if (closed !== undefined) {
      return refuse(
        "INVALID_REQUEST",
        `Cannot keep the database in ${layout.dataDir}: ${closed} is closed to user ${account.uid}, as ` +
          "whom PostgreSQL runs, since it may not run as root. Choose another folder, such as " +
          "/var/lib/claviger, or start as the user who owns this one",
      );
    }
  }
  return undefined;
}

function removeUnfinished(dataDir: string): void {
  for (const name of readdirSync(dataDir)) {
    if (!isUnfinished(name)) continue;
    try {
      rmSync(join(dataDir, name), { recursive: true, force: true });
    } catch {
      // Something of the interrupted start may still write there: the next start will find it quiet.
    }
  }
}

function nothingInside(): Refusal {
  return refuse(
    "INVALID_REQUEST",
    "Cannot start a database: this build has no PostgreSQL inside; set DATABASE_URL",
  );
}

function noData({ dataDir }: Layout): Refusal {
  return refuse(
    "INVALID_REQUEST",
    `Cannot find a database in ${dataDir}: start the service or run migrate there first, or name the ` +
      "folder that the service uses with --data-dir",
  );
}

function held({ dataDir, lock }: Layout, options: EmbeddedOptions): Refusal {
  const holder = readHolder(lock);
  const who = holder === undefined ? "another process" : `process ${holder.pid}`;
  if (holder?.kind === "serve" && options.holder === "serve") {
    const why = `a service runs there already (${who}); stop it or choose another folder`;
    return refuse("INVALID_REQUEST", `Cannot serve from ${dataDir}: ${why}`);
  }
  const what = holder?.kind === "serve" ? "the service there does not get ready" : "it is in use";
  return refuse(
    "INVALID_REQUEST",
    `Cannot open ${dataDir}: ${what} (${who}); try again when it is done, or stop it`,
  );
}

/** A folder that this user may not use is to be expected; anything else goes on its way. */
function toRefusal(error: unknown, { dataDir }: Layout): Refusal {
  const fix: Readonly<Record<string, string>> = {
    EACCES: "run as root or as the user it belongs to, or choose another folder",
    EPERM: "run as root or as the user it belongs to, or choose another folder",
    EROFS: "its file system cannot be written to; choose another folder",
    ENOTDIR: "a part of that path is a file; choose another folder",
    ENOSPC: "free some space on its disk",
    EDQUOT: "free some space on its disk",
    EEXIST: "there is a file of that name; choose another folder",
  };
  // Only of system calls made here: PostgreSQL's own failures come as plain errors with a cause.
  const what = fix[codeOf(error)];
  if (what === undefined) throw error;
  return refuse("INVALID_REQUEST", `Cannot open the data folder ${dataDir}: ${reasonOf(error)}; ${what}`);
}
