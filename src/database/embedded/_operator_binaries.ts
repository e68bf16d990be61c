/**
 * Runs the operator's own `postgres` and `initdb` in place of the programs inside, because a distribution updates
 * its programs between two releases of Claviger. Every release of one major version can use the same cluster.
 */
import { spawnSync } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { type ChangeableStep, followPath, nameOfUser } from "../../base/host/mod.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { codeOf, reasonOf } from "../../base/system_error.ts";
import type { Binaries } from "./_binaries.ts";
import { bareEnvironment } from "./_cluster.ts";
import type { ClusterUser } from "./_cluster_user.ts";

const REMEDY =
  "name the folder that holds postgres and initdb, such as /usr/lib/postgresql/18/bin, or leave " +
  "CLAVIGER_POSTGRES_BIN out to run the PostgreSQL inside";

/**
 * Checks and returns the programs of the folder. The cluster's user runs each of them once, to read its version. They
 * must have the same major version as the PostgreSQL `inside`, such as `18.4`.
 */
export function useOperatorBinaries(
  folder: string,
  { inside, clusterUser }: { readonly inside: string; readonly clusterUser: ClusterUser | undefined },
): Binaries | Refusal {
  const cannot = (why: string, remedy = REMEDY) =>
    refuse("INVALID_REQUEST", `Cannot run the PostgreSQL in ${folder}: ${why}; ${remedy}`);
  const major = majorOf(inside);
  if (!existsSync(folder)) return cannot("there is no such folder");
  const bin = realpathSync(folder);
  for (const program of ["postgres", "initdb"]) {
    const path = join(bin, program);
    if (!existsSync(path)) return cannot(`it holds no ${program}`);
    const changeable = findChangeable(join(folder, program));
    if (changeable !== undefined) {
      const { path: unsafe } = changeable;
      return cannot(
        `other users can change ${unsafe}`,
        `give it to root alone (chown root ${unsafe}; chmod go-w ${unsafe}), or leave CLAVIGER_POSTGRES_BIN out`,
      );
    }
    const found = readProgramVersion(path, clusterUser);
    if ("failure" in found) return cannot(`${program} ${found.failure}`);
    if (majorOf(found.version) !== major) {
      return cannot(
        `its ${program} is of version ${found.version}, and this Claviger works with ${major} only`,
        `install PostgreSQL ${major} and name its folder, or leave CLAVIGER_POSTGRES_BIN out to run the ` +
          `${inside} inside`,
      );
    }
  }
  return { bin, major };
}

/**
 * Returns the version of the folder's server, such as `18.6`; undefined if it cannot be read. A program that other
 * users can change is not run.
 */
export function readOperatorVersion(folder: string): string | undefined {
  const server = join(folder, "postgres");
  if (!existsSync(server) || findChangeable(server) !== undefined) return undefined;
  const found = readProgramVersion(server, undefined);
  return "failure" in found ? undefined : found.version;
}

/** Finds the part of the program's path that users other than root and the user of this process can change. */
function findChangeable(program: string): ChangeableStep | undefined {
  const own = process.getuid?.();
  const isTrusted = (uid: number) => uid === 0 || uid === own;
  return followPath(program, { isTrusted, isFolder: true }).changeable;
}

function readProgramVersion(
  path: string,
  clusterUser: ClusterUser | undefined,
): { readonly version: string } | { readonly failure: string } {
  const run = spawnSync(path, ["--version"], {
    cwd: "/",
    env: bareEnvironment,
    encoding: "utf8",
    timeout: 10_000,
    maxBuffer: 64 * 1024,
    ...clusterUser,
  });
  if (run.error !== undefined) {
    const who =
      clusterUser === undefined ? "" : ` by user ${nameOfUser(clusterUser.uid)}, who runs PostgreSQL`;
    return { failure: `cannot be run${who}: ${codeOf(run.error) ?? reasonOf(run.error)}` };
  }
  // For example `postgres (PostgreSQL) 18.6 (Debian 18.6-1.pgdg13+1)`. A beta has no minor version.
  const [, version] = /^\w+ \(PostgreSQL\) (\d+\.\d+)\b/.exec(run.stdout) ?? [];
  if (run.status === 0 && version !== undefined) return { version };
  const said = (run.stdout || run.stderr).trim().split("\n")[0] ?? "";
  const ended = run.status === 0 ? "" : ` and ended with ${run.signal ?? `code ${run.status}`}`;
  return {
    failure: `does not say the version of a release: it said ${JSON.stringify(said.slice(0, 200))}${ended}`,
  };
}

function majorOf(version: string): string {
  return version.split(".")[0] ?? "";
}
