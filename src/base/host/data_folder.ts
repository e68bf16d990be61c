/**
 * A data folder belongs to the user who runs the command. In a folder of somebody else the owner could replace a file by
 * a link, and the command would write where the link leads; or the owner could read the secret that the command writes.
 * Root has more to lose: for root, nobody else may be able to change where the path of the folder leads.
 */
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { hasCode, reasonOf } from "../system_error.ts";
import { DATA_FOLDER_NAMES } from "./data_folder_names.ts";
import { followPath } from "./path_owner.ts";
import { nameOfUser } from "./system_users.ts";

const OTHERS_WRITE = 0o022;
/** Where systemd keeps the folders of units with DynamicUser, closed to all but root. */
const DYNAMIC_FOLDERS = "/var/lib/private";

const NEW_UNIT =
  "the service's unit has DynamicUser: stop the service, create its user with the line that `claviger systemd " +
  "--sysusers` prints, print a new unit with `claviger systemd`, and start it";
const OTHER_FOLDER = "choose another folder";
const ROOT_ALONE = "choose a folder that root alone can change, such as /var/lib/claviger";

/**
 * Returns why this user may not work in a folder; undefined if the user may, or if the folder does not exist.
 * `asUser` returns the remedy: to run the command as the owner of the folder, who may be unknown.
 */
export function refuseForeignFolder(
  dataDir: string,
  asUser = (owner: string | undefined) =>
    `run the command as ${owner === undefined ? "the user of the service" : `user ${owner}`}`,
): Refusal | undefined {
  const me = process.geteuid?.();
  if (me === undefined) return undefined;
  const cannot = (why: string, remedy: string) => cannotWork(dataDir, why, remedy);
  try {
    const { found, uid: owner, exists, changeable } = followPath(dataDir, { isTrusted: (uid) => uid === 0 });
    if (exists && owner !== me) {
      const name = nameOfUser(owner);
      const remedy = found.startsWith(`${DYNAMIC_FOLDERS}/`) ? NEW_UNIT : asUser(name);
      return cannot(
        `it belongs to user ${name}, and a data folder belongs to the user of the command`,
        remedy,
      );
    }
    if (me !== 0 || changeable === undefined) return undefined;
    const { path, uid } = changeable;
    return uid === undefined
      ? cannot(`other users can write to ${path}`, `\`chmod go-w ${path}\`, or ${ROOT_ALONE}`)
      : cannot(`${path} belongs to user ${nameOfUser(uid)}, who could make root work elsewhere`, ROOT_ALONE);
  } catch (error) {
    if (hasCode(error, "ENOTDIR") || hasCode(error, "ELOOP")) return cannot(reasonOf(error), OTHER_FOLDER);
    if (!hasCode(error, "EACCES")) throw error;
    const isDynamic = error instanceof Error && error.message.includes(`${DYNAMIC_FOLDERS}/`);
    return cannot("a folder above it is closed to this user", isDynamic ? NEW_UNIT : asUser(undefined));
  }
}

function cannotWork(dataDir: string, why: string, remedy: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot work in the data folder ${dataDir}: ${why}; ${remedy}`);
}

/**
 * Creates a data folder, closed to other users, and the folders above it. Refuses a folder of another
 * user, also one that was made in the meantime. Returns the topmost folder that it created; undefined if it created none.
 */
export function makeDataFolder(dataDir: string): string | Refusal | undefined {
  const path = resolve(dataDir);
  const already = refuseForeignFolder(path);
  if (already !== undefined) return already;
  const missing: string[] = [];
  for (let at = path; !existsSync(at); at = dirname(at)) missing.unshift(at);
  for (const folder of missing) {
    // One by one: a link that another user makes in the meantime must not lead the next one elsewhere.
    try {
      mkdirSync(folder, { mode: folder === path ? 0o700 : 0o755 });
    } catch (error) {
      // Such as /proc, where no user can make a folder.
      if (hasCode(error, "ENOENT"))
        return cannotWork(dataDir, `no folder can be made in ${dirname(folder)}`, OTHER_FOLDER);
      if (!hasCode(error, "EEXIST") || !existsSync(folder)) throw error;
    }
    const foreign = refuseForeignFolder(folder);
    if (foreign !== undefined) return foreign;
  }
  if (missing[0] !== undefined) return missing[0];
  // Another user may have made it after the first look.
  const foreign = refuseForeignFolder(path);
  if (foreign !== undefined) return foreign;
  const closed = closeDataFolder(path, { begins: true });
  return isRefusal(closed) ? closed : undefined;
}

/**
 * Closes a data folder of this user into which other users can write. Returns whether that was necessary. An empty folder
 * is closed only if the caller `begins` an installation in it. Refuses a folder with other things, such as `/tmp`: it stays
 * as it is. Refuses a folder in which another user has left something, one that this user cannot open, and a file.
 */
export function closeDataFolder(dataDir: string, { begins = false } = {}): boolean | Refusal {
  const me = process.geteuid?.();
  if (me === undefined || !existsSync(dataDir)) return false;
  let folder: number;
  try {
    folder = openSync(dataDir, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    if (hasCode(error, "ENOTDIR")) return cannotWork(dataDir, "it is a file", OTHER_FOLDER);
    if (hasCode(error, "EACCES")) return cannotWork(dataDir, reasonOf(error), `\`chmod u+rwx ${dataDir}\``);
    throw error;
  }
  try {
    const { uid, mode } = fstatSync(folder);
    if (uid !== me || (mode & OTHERS_WRITE) === 0) return false;
    const names = readdirSync(dataDir);
    if (names.length === 0 && !begins) return false;
    if (names.length > 0 && !DATA_FOLDER_NAMES.some((name) => names.includes(name))) {
      const why = "other users can write to it, and what it holds is not an installation";
      return cannotWork(dataDir, why, OTHER_FOLDER);
    }
    // The user who runs PostgreSQL for root must be able to enter.
    fchmodSync(folder, me === 0 ? 0o711 : 0o700);
    const strange = readdirSync(dataDir).find((name) => lstatSync(join(dataDir, name)).uid !== me);
    if (strange === undefined) return true;
    fchmodSync(folder, mode & 0o7777);
    const why = `other users can write to it, and ${strange} in it belongs to another user`;
    const remedy = `remove what you did not put there, then \`chmod go-w ${dataDir}\``;
    return cannotWork(dataDir, why, remedy);
  } finally {
    closeSync(folder);
  }
}
