/**
 * Finds the user who runs PostgreSQL. PostgreSQL refuses to run as root, so root gives the cluster to an
 * unprivileged user. Every other user runs the cluster with their own user id.
 */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import {
  existsSystemGroup,
  findSystemUser,
  findTool,
  nameOfUser,
  TOOL_FOLDERS,
} from "../../base/host/mod.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { reasonOf } from "../../base/system_error.ts";
import type { Layout } from "./_layout.ts";

/** The owner of the cluster's processes and files. */
export interface ClusterUser {
  readonly uid: number;
  readonly gid: number;
}

const USER_NAME = "claviger";

/**
 * Finds the user to run the cluster as; undefined means the user of this process.
 *
 * For root in a data folder that belongs to root, this is the owner of the cluster in it, otherwise the system user
 * `claviger`, which is created if it is missing. For any other user it is the user of this process. Refuses
 * one who would have to make a cluster and has no entry in passwd.
 */
export function findClusterUser(
  layout: Layout,
  folders: readonly string[] = TOOL_FOLDERS,
): ClusterUser | Refusal | undefined {
  const cluster = existsSync(layout.cluster) ? statSync(layout.cluster) : undefined;
  const own = process.getuid?.();
  if (own !== 0) {
    if (cluster === undefined) return refuseNameless(own, folders);
    if (cluster.uid === own) return undefined;
    const why = `it belongs to user ${nameOfUser(cluster.uid)}; give it back to the owner of the data folder with chown -hR`;
    return refuse("INVALID_REQUEST", `Cannot use the database in ${layout.cluster}: ${why}`);
  }
  if (cluster !== undefined && cluster.uid !== 0) return { uid: cluster.uid, gid: cluster.gid };
  return findUser(folders) ?? createUser(folders);
}

/** Refuses a user without an entry in passwd: `initdb` looks for the name of its user. A cluster that is made needs none. */
function refuseNameless(uid: number | undefined, folders: readonly string[]): Refusal | undefined {
  if (uid === undefined || findSystemUser(uid, folders) !== undefined) return undefined;
  return refuse(
    "INVALID_REQUEST",
    `Cannot make a database as user ${uid}: the user has no entry in /etc/passwd, which PostgreSQL needs for it; add one, or ` +
      'start as a user who has one: see "Another user" in `claviger guide containers`',
  );
}

function findUser(folders: readonly string[]): ClusterUser | Refusal | undefined {
  const user = findSystemUser(USER_NAME, folders);
  if (user === undefined || user.uid > 0) return user;
  return refuse("INVALID_REQUEST", `Cannot run PostgreSQL as user ${USER_NAME}: it must not be root`);
}

/** Creates the user with the first tool that is installed. It tries no other: the first error helps the operator. */
function createUser(folders: readonly string[]): ClusterUser | Refusal {
  const useradd = findTool("useradd", folders);
  const program = useradd ?? findTool("adduser", folders);
  const nologin = findTool("nologin", folders) ?? "/bin/false";
  const hasGroup = existsSystemGroup(USER_NAME, folders);
  const options =
    useradd === undefined
      ? ["-S", "-D", "-H", ...(hasGroup ? ["-G", USER_NAME] : []), "-h", "/nonexistent", "-s", nologin]
      : [
          "--system",
          "--no-create-home",
          ...(hasGroup ? ["--gid", USER_NAME] : ["--user-group"]),
          "--home-dir",
          "/nonexistent",
          "--shell",
          nologin,
        ];
  let reason = "neither useradd nor adduser is installed";
  if (program !== undefined) {
    const run = spawnSync(program, [...options, USER_NAME], {
      encoding: "utf8",
      env: { LC_ALL: "C", PATH: folders.join(":") },
      timeout: 10_000,
    });
    const user = findUser(folders);
    if (user !== undefined) return user;
    reason =
      run.error === undefined
        ? run.stderr.trim().split("\n")[0] || `${program} ended with ${run.status ?? run.signal}`
        : reasonOf(run.error);
  }
  return refuse(
    "INVALID_REQUEST",
    `Cannot create the user ${USER_NAME}, which is needed to run PostgreSQL: ${reason}. ` +
      `Create it (useradd --system ${USER_NAME}) or start as another user than root`,
  );
}
