/**
 * Finds the users who can change where a path leads. A user who can rename a folder or a symbolic link on the way can
 * make the path lead elsewhere between two system calls. Root follows a path only if no other user can do that.
 *
 * Only owners and mode bits are read, not access lists.
 */
import { lstatSync, readlinkSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

export interface ChangeableStep {
  readonly path: string;
  /** The owner; undefined if the mode lets other users write. */
  readonly uid: number | undefined;
}

interface PathOptions {
  readonly isTrusted: (uid: number) => boolean;
  /** Whether the path leads to a folder that exists, in which nobody else may write either. */
  readonly isFolder?: boolean;
}

/** The kernel follows this many symbolic links. */
const MAX_LINKS = 40;
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

/**
 * Follows an absolute path name by name, as the kernel does. Throws the errors of the file system. `found` is where the
 * path leads, or the nearest folder on the way that exists; `exists` tells whether the path itself does; `changeable` is
 * the first folder or link on the way that a user who is not trusted can change.
 */
export function followPath(path: string, { isTrusted, isFolder = false }: PathOptions) {
  let changeable: ChangeableStep | undefined;
  const judge = (at: string, { uid, mode }: Stats, mayBeSticky: boolean) => {
    if (changeable !== undefined) return;
    const isOpen = (mode & OTHERS_WRITE) !== 0 && !(mayBeSticky && (mode & STICKY) !== 0);
    if (!isTrusted(uid)) changeable = { path: at, uid };
    else if (isOpen) changeable = { path: at, uid: undefined };
  };
  let at = "/";
  let stat = lstatSync(at);
  let links = 0;
  let names = namesOf(resolve(path));
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    if (name === "..") {
      at = dirname(at);
      stat = lstatSync(at);
      continue;
    }
    judge(at, stat, true);
    const next = join(at, name);
    const found = lstatSync(next, { throwIfNoEntry: false });
    if (found === undefined) {
      // Another user could make it first.
      if (isFolder) judge(at, stat, false);
      return { found: at, uid: stat.uid, exists: false, changeable };
    }
    // In a folder with the sticky bit, only the owner of a name can change the name.
    if ((stat.mode & OTHERS_WRITE) !== 0 && !isTrusted(found.uid))
      changeable ??= { path: next, uid: found.uid };
    if (found.isSymbolicLink()) {
      if (++links > MAX_LINKS)
        throw Object.assign(new Error(`ELOOP: too many links, ${path}`), { code: "ELOOP" });
      const target = readlinkSync(next);
      if (target.startsWith("/")) {
        at = "/";
        stat = lstatSync(at);
      }
      names = [...namesOf(target), ...names];
      continue;
    }
    at = next;
    stat = found;
  }
  if (isFolder) judge(at, stat, false);
  return { found: at, uid: stat.uid, exists: true, changeable };
}

/**
 * Returns the first folder on the way to `path`, or `path`, that `account` may not enter; undefined if there is none.
 * Only mode bits are read, not access lists.
 */
export function findClosedFolder(
  path: string,
  account: { readonly uid: number; readonly gid: number },
): string | undefined {
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

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/**
 * Tells whether this process runs as root and another user can change where the path leads; with `isFolder` also whether
 * another user can make files in it, which the sticky bit does not prevent.
 */
export function isForeignPath(path: string, { isFolder = false } = {}): boolean {
  const isTrusted = (uid: number) => uid === 0;
  return process.getuid?.() === 0 && followPath(path, { isTrusted, isFolder }).changeable !== undefined;
}
