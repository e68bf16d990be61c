/**
 * PostgreSQL refuses to run as root, so root hands the cluster to an unprivileged user of its own. Any
 * other user runs it as himself.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { type Refusal, refuse } from "../../refusal.ts";
import { reasonOf } from "./_errors.ts";
import type { Layout } from "./_layout.ts";

/** Whom processes and files of the cluster belong to. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

const accountName = "claviger";

/**
 * Finds the user to run the cluster as; undefined means as we are.
 *
 * For root: the owner of the data folder or of the cluster in it, where that is not root (a service that
 * ran as another user before), else the system user `claviger`, created when it is missing.
 */
export function findAccount(layout: Layout): Account | Refusal | undefined {
  const cluster = existsSync(layout.cluster) ? statSync(layout.cluster) : undefined;
  const own = process.getuid?.();
  if (own !== 0) {
    if (cluster === undefined || cluster.uid === own) return undefined;
    const why = `it belongs to user ${cluster.uid}; run as that user or as root`;
    return refuse("INVALID_REQUEST", `Cannot use the database in ${layout.cluster}: ${why}`);
  }
  const folder = statSync(layout.dataDir);
  if (folder.uid !== 0) return { uid: folder.uid, gid: folder.gid };
  if (cluster !== undefined && cluster.uid !== 0) return { uid: cluster.uid, gid: cluster.gid };
  return findUser() ?? createUser();
}

/**
 * The folder above (or at) `path` that `account` may not pass through, if there is one. Goes by the
 * mode bits; access lists are not asked.
 */
export function findClosedFolder(path: string, account: Account): string | undefined {
  let folder = realpathSync(path);
  let closed: string | undefined;
  for (;;) {
    const { mode, uid, gid } = statSync(folder);
    const pass = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001;
    if ((mode & pass) === 0) closed = folder;
    const parent = dirname(folder);
    if (parent === folder) return closed;
    folder = parent;
  }
}

function findUser(): Account | Refusal | undefined {
  const line = readDatabase("/etc/passwd").find((fields) => fields[0] === accountName);
  if (line === undefined) return undefined;
  const account = { uid: Number(line[2]), gid: Number(line[3]) };
  if (account.uid > 0) return account;
  return refuse("INVALID_REQUEST", `Cannot run PostgreSQL as user ${accountName}: it must not be root`);
}

function createUser(): Account | Refusal {
  const attempts = existsGroup()
    ? [`useradd --system --no-create-home --gid ${accountName}`, `adduser -S -D -H -G ${accountName}`]
    : ["useradd --system --no-create-home --user-group", "adduser -S -D -H"];
  let reason = "neither useradd nor adduser is installed";
  for (const attempt of attempts) {
    const [tool = "", ...options] = attempt.split(" ");
    const program = findTool(tool);
    if (program === undefined) continue;
    const home = tool === "useradd" ? "--home-dir" : "-h";
    const shell = tool === "useradd" ? "--shell" : "-s";
    const nologin = findTool("nologin") ?? "/bin/false";
    const run = spawnSync(program, [...options, home, "/nonexistent", shell, nologin, accountName], {
      encoding: "utf8",
      env: { LC_ALL: "C", PATH: toolFolders.join(":") },
      timeout: 10_000,
    });
    const user = findUser();
    if (user !== undefined) return user;
    reason = run.error === undefined ? run.stderr.trim().split("\n")[0] || reason : reasonOf(run.error);
  }
  return refuse(
    "INVALID_REQUEST",
    `Cannot create the user ${accountName}, as whom PostgreSQL is to run: ${reason}. ` +
      `Create it (useradd --system ${accountName}) or start as another user than root`,
  );
}

const toolFolders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

function findTool(name: string): string | undefined {
  return toolFolders.map((folder) => `${folder}/${name}`).find((path) => existsSync(path));
}

function existsGroup(): boolean {
  return readDatabase("/etc/group").some((fields) => fields[0] === accountName);
}

function readDatabase(path: string): string[][] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .map((line) => line.split(":"));
}
