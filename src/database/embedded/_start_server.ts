/**
 * Starts PostgreSQL in a data folder whose lock this process holds.
 *
 * The owner always does the same steps, in whatever state the folder is: stop the remaining processes of an earlier
 * server, remove unfinished folders, unpack PostgreSQL and initialise the cluster if they are missing, start.
 */
import type { FileLock } from "../../base/platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { reasonOf } from "../../base/system_error.ts";
import {
  type Binaries,
  removeOtherBinaries,
  settleBinaries,
  unpackBinaries,
  versionOf,
} from "./_binaries.ts";
import { initialiseCluster } from "./_cluster.ts";
import { type ClusterUser, findClusterUser } from "./_cluster_user.ts";
import { closeCluster, removeUnfinished, shareWith } from "./_data_dir.ts";
import { examineCluster } from "./_examine_cluster.ts";
import { renderHolder } from "./_holder.ts";
import { type Layout, layoutOf } from "./_layout.ts";
import { useOperatorBinaries } from "./_operator_binaries.ts";
import { NO_POSTGRES } from "./_refusals.ts";
import { sharedBuffers } from "./_settings.ts";
import { openSocketFolder } from "./_socket.ts";
import { supervise } from "./_supervisor.ts";
import { createRestoreNote, noteInstallation } from "./_traces.ts";
import type { EmbeddedOptions, EmbeddedServer } from "./embedded_server.ts";
import { stopLeftovers } from "./leftovers.ts";

/**
 * Returns the server when it accepts connections. Its `stop` releases the lock; after a refusal or an error the caller
 * releases it. Refuses and rejects as `openEmbedded` says.
 */
export async function startServer(
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
  const clusterUser = findClusterUser(layout);
  if (isRefusal(clusterUser)) return clusterUser;
  if (clusterUser !== undefined) {
    const closed = shareWith(clusterUser, layout, options.binariesParent);
    if (closed !== undefined) return closed;
  }
  const binaries = await findBinaries(dataDir, clusterUser, options);
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
  if (made === undefined) await initialiseCluster({ cluster, binaries, clusterUser, fsync });

  const supervisor = await supervise({
    layout,
    binaries,
    clusterUser,
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

/** Returns the operator's programs if `postgresBin` is set; otherwise unpacks the programs inside. */
async function findBinaries(
  dataDir: string,
  clusterUser: ClusterUser | undefined,
  { platform, postgresBin, binariesParent, log }: EmbeddedOptions,
): Promise<Binaries | Refusal> {
  const archive = await platform.postgresArchive();
  if (archive === undefined) return NO_POSTGRES;
  if (postgresBin !== undefined) {
    return useOperatorBinaries(postgresBin, { inside: versionOf(archive), clusterUser });
  }
  return await unpackBinaries(archive, {
    parent: binariesParent ?? dataDir,
    shared: binariesParent !== undefined,
    log,
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
