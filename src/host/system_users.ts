/**
 * The users and groups of this host, asked by `getent`: a user need not be in `/etc/passwd` (systemd's, LDAP's).
 * Only a host without `getent`, such as one of musl and BusyBox, has its users in the files alone.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

export interface SystemUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Where root's tools are; not the PATH of whoever started the program. */
export const TOOL_FOLDERS: readonly string[] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

const LOOK_UP_LIMIT_MS = 5_000;
const NOT_FOUND = 2;

/** Finds a user by name or by number; undefined where there is none. */
export function findSystemUser(
  key: string | number,
  folders: readonly string[] = TOOL_FOLDERS,
): SystemUser | undefined {
  const [name = "", , uid, gid] = findEntry("passwd", key, folders) ?? [];
  return name === "" ? undefined : { name, uid: Number(uid), gid: Number(gid) };
}

export function existsSystemGroup(name: string, folders: readonly string[] = TOOL_FOLDERS): boolean {
  return findEntry("group", name, folders) !== undefined;
}

/** The path of a program in one of these folders; undefined where it is not installed. */
export function findTool(name: string, folders: readonly string[] = TOOL_FOLDERS): string | undefined {
  return folders.map((folder) => `${folder}/${name}`).find((path) => existsSync(path));
}

/** The fields of an entry. Source: getent(1), for the exit status. */
function findEntry(
  database: "passwd" | "group",
  key: string | number,
  folders: readonly string[],
): string[] | undefined {
  const getent = findTool("getent", folders);
  if (getent !== undefined) {
    const { status, stdout } = spawnSync(getent, [database, String(key)], {
      encoding: "utf8",
      timeout: LOOK_UP_LIMIT_MS,
    });
    if (status === 0) return stdout.trim().split(":");
    if (status === NOT_FOUND) return undefined;
  }
  const path = `/etc/${database}`;
  if (!existsSync(path)) return undefined;
  const entries = readFileSync(path, "utf8").split("\n");
  return entries
    .map((line) => line.split(":"))
    .find(([name, , id]) => name !== "" && String(key) === (typeof key === "number" ? id : name));
}
