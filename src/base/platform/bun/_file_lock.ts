/**
 * Locks files with `flock` of the C library. The kernel releases the lock when the process ends, also after a crash, so
 * no lock is ever stale. Descriptors are opened close-on-exec, so the PostgreSQL that we start does not inherit the
 * lock.
 */
import { dlopen } from "bun:ffi";
import { closeSync, constants, fstatSync, ftruncateSync, openSync, writeSync } from "node:fs";
import type { FileLock } from "../mod.ts";
import { onFirstUse } from "./_c_library.ts";

const LOCK_EX = 2;
const LOCK_NB = 4;

const library = onFirstUse((name) => dlopen(name, { flock: { args: ["i32", "i32"], returns: "i32" } }));

/** Locks a file without waiting; undefined if another process has locked it. */
export function tryLock(path: string): FileLock | undefined {
  const fd = openOwnFile(path);
  if (!lockOpenFile(fd)) {
    closeSync(fd);
    return undefined;
  }
  let held = true;
  return {
    write(text) {
      ftruncateSync(fd, 0);
      writeSync(fd, text, 0);
    },
    release() {
      if (!held) return;
      held = false;
      ftruncateSync(fd, 0);
      closeSync(fd);
    },
  };
}

/** Locks an open file without waiting, until it is closed; false if another process has locked it. */
export function lockOpenFile(fd: number): boolean {
  return library().symbols.flock(fd, LOCK_EX | LOCK_NB) === 0;
}

/** Opens or creates a file of this user. Throws for anything else at that path, and follows no link. */
function openOwnFile(path: string): number {
  const { O_RDWR, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  const fd = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  const stat = fstatSync(fd);
  const isOwn = stat.uid === process.geteuid?.();
  if (stat.isFile() && isOwn) return fd;
  closeSync(fd);
  const [code, why] = isOwn ? ["ENOTREG", "is no regular file"] : ["EOWNER", `belongs to user ${stat.uid}`];
  throw Object.assign(new Error(`${code}: ${path} ${why}`), { code, syscall: "open" });
}
