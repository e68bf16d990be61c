/** Creates the cluster, which is PostgreSQL's word for a data folder with its databases. */
import { spawn } from "node:child_process";
import { chownSync, constants, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { readRegularFile } from "../../base/read_regular_file.ts";
import { syncPath } from "../../base/sync_path.ts";
import { hasCode } from "../../base/system_error.ts";
import type { Binaries } from "./_binaries.ts";
import type { ClusterUser } from "./_cluster_user.ts";
import { makeUnfinished } from "./_layout.ts";
import { explainError } from "./_server_log.ts";
import { initialSettings, toArguments } from "./_settings.ts";

/** The code of the error of an initdb that a signal ended. */
export const INITDB_STOPPED = "INITDB_STOPPED";

export const SUPERUSER = "claviger";
/** The database that every cluster has. A database of our own would make the first start 0.1 s slower. */
export const DATABASE = "postgres";

/** The environment of PostgreSQL processes: never our own, which holds the operator's secrets. */
export const bareEnvironment = { LC_ALL: "C", TZ: "UTC", PATH: "/usr/bin:/bin" };

const VERSION_LIMIT_BYTES = 64;

/**
 * Returns the major version of the PostgreSQL that created the cluster, such as `18`; undefined if there is no valid
 * one. Root may read a cluster that belongs to another user, so root must not wait for a pipe in place of the file, or
 * show the target of a link.
 */
export function readClusterMajor(cluster: string): string | undefined {
  try {
    const path = join(cluster, "PG_VERSION");
    const text = readRegularFile(path, VERSION_LIMIT_BYTES, constants.O_NOFOLLOW);
    return /^\d+(\.\d+)?\n?$/.test(text) ? text.trim() : undefined;
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "EFBIG"].some((code) => hasCode(error, code))) return undefined;
    throw error;
  }
}

interface InitialiseOptions {
  readonly cluster: string;
  readonly binaries: Binaries;
  readonly clusterUser: ClusterUser | undefined;
  /** False in tests only: without fsync a power cut can leave a cluster that does not start. */
  readonly fsync: boolean;
}

/**
 * Creates the cluster, under another name until it is whole and on disk: initdb writes the version file early, so
 * the folder of an interrupted initdb looks like a cluster.
 */
export async function initialiseCluster(options: InitialiseOptions): Promise<void> {
  const { cluster, clusterUser } = options;
  let unfinished: string | undefined;
  try {
    unfinished = makeUnfinished(cluster);
    // The data folder belongs to root, so the cluster's user cannot create a folder in it.
    if (clusterUser !== undefined) chownSync(unfinished, clusterUser.uid, clusterUser.gid);
    await runInitdb(unfinished, options);
    renameSync(unfinished, cluster);
    if (options.fsync) await syncPath(dirname(cluster));
  } catch (error) {
    if (unfinished !== undefined) rmSync(unfinished, { recursive: true, force: true });
    throw new Error(`Cannot initialise the database in ${cluster}: ${explainError(error)}`, { cause: error });
  }
}

/** Takes the cluster's name from what an interrupted restore has made; the next step removes it as unfinished. */
export function discardCluster(cluster: string): void {
  renameSync(cluster, makeUnfinished(cluster));
}

function runInitdb(folder: string, { binaries, clusterUser, fsync }: InitialiseOptions): Promise<void> {
  const args = [
    `--pgdata=${folder}`,
    `--username=${SUPERUSER}`,
    "--auth=trust",
    // Without these initdb uses LANG, and if LANG is missing, SQL_ASCII.
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--data-checksums",
    "--no-instructions",
    ...(fsync ? [] : ["--no-sync"]),
    ...toArguments(initialSettings),
  ];
  return new Promise((resolve, reject) => {
    const child = spawn(join(binaries.bin, "initdb"), args, {
      cwd: "/",
      env: bareEnvironment,
      // Ctrl-C signals every process of the terminal. So initdb gets a process session of its own.
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
      ...clusterUser,
    });
    let output = "";
    child.stderr.on("data", (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-4000);
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0) return resolve();
      const lines = output
        .split("\n")
        .filter((line) => /\S/.test(line))
        .slice(-8);
      const error = new Error(`initdb ended with ${signal ?? `code ${code}`}. It said: ${lines.join(" / ")}`);
      // What initdb says if it catches the signal. Then it removes what it has made, and ends with a code.
      const isStopped = signal !== null || lines.some((line) => line.includes("caught signal"));
      reject(isStopped ? Object.assign(error, { code: INITDB_STOPPED }) : error);
    });
  });
}
