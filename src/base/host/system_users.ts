/**
 * The users and groups of this host, found with `getent`, because systemd and LDAP have users that are not in
 * `/etc/passwd`. The files are read only on a host without `getent`, such as one with musl and BusyBox.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

/** The folders of root's tools. The PATH of the caller is not used. */
export const TOOL_FOLDERS: readonly string[] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

const LOOK_UP_LIMIT_MS = 5_000;
const NOT_FOUND = 2;

/** Finds a user by name or by number; undefined if there is none. */
export function findSystemUser(key: string | number, folders: readonly string[] = TOOL_FOLDERS) {
  const [name = "", , uid, gid] = findEntry("passwd", key, folders) ?? [];
  return name === "" ? undefined : { name, uid: Number(uid), gid: Number(gid) };
}

/** Returns the name of a user, for people; the number if the user has no name. */
export function nameOfUser(uid: number): string {
  return findSystemUser(uid)?.name ?? `#${uid}`;
}

/** Tells whether the system has a group of this name. */
export function existsSystemGroup(name: string, folders: readonly string[] = TOOL_FOLDERS): boolean {
  return findEntry("group", name, folders) !== undefined;
}

/** Returns the path of a program in one of these folders; undefined if it is not installed. */
export function findTool(name: string, folders: readonly string[] = TOOL_FOLDERS): string | undefined {
  return folders.map((folder) => `${folder}/${name}`).find((path) => existsSync(path));
}

/** Returns the fields of an entry. Source of the exit status: getent(1). */
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
