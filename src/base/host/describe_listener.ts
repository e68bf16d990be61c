/** Finds who listens on a port of this host. Source: proc(5), the files `net/tcp` and `PID/fd`. */
import { readdirSync, readlinkSync } from "node:fs";
import { readRegularFile } from "../read_regular_file.ts";
import { nameOfUser } from "./system_users.ts";

/** Enough for 50,000 connections. A larger table is not read, and then nobody is found. */
const TABLE_LIMIT_BYTES = 8 * 1024 * 1024;
const NAME_LIMIT_BYTES = 64;
/** The state of a socket that listens. */
const LISTENS = "0A";

/**
 * Returns who listens on a TCP port, as `nginx (process 812)`, or as `a process of user www-data` if this user may not see
 * what the process has open. Undefined if nobody listens there, or if this cannot be found out. Never throws.
 */
export function describeListener(port: number): string | undefined {
  const sockets = [...listSockets("tcp"), ...listSockets("tcp6")].filter((socket) => socket.port === port);
  const [first] = sockets;
  if (first === undefined) return undefined;
  const links = new Set(sockets.map(({ inode }) => `socket:[${inode}]`));
  const pid = namesIn("/proc").find((name) => /^\d+$/.test(name) && hasOpen(name, links));
  if (pid === undefined) return `a process of user ${nameOfUser(first.uid)}`;
  const name = readOrEmpty(`/proc/${pid}/comm`, NAME_LIMIT_BYTES);
  // Any process can call itself anything.
  return `${name.trim().replaceAll(/[^\x20-\x7e]/g, "?") || "a program"} (process ${pid})`;
}

interface ListeningSocket {
  readonly port: number;
  readonly uid: number;
  readonly inode: string;
}

function listSockets(table: "tcp" | "tcp6"): ListeningSocket[] {
  const lines = readOrEmpty(`/proc/net/${table}`, TABLE_LIMIT_BYTES).split("\n").slice(1);
  return lines.flatMap((line) => {
    const [, local = "", , state, , , , uid, , inode = ""] = line.trim().split(/\s+/);
    const port = Number.parseInt(local.split(":")[1] ?? "", 16);
    return state === LISTENS ? [{ port, uid: Number(uid), inode }] : [];
  });
}

function hasOpen(pid: string, links: ReadonlySet<string>): boolean {
  const folder = `/proc/${pid}/fd`;
  return namesIn(folder).some((fd) => {
    try {
      return links.has(readlinkSync(`${folder}/${fd}`));
    } catch {
      return false;
    }
  });
}

/** Returns the names in a folder; none if its process has ended or belongs to another user. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function readOrEmpty(path: string, limitBytes: number): string {
  try {
    return readRegularFile(path, limitBytes);
  } catch {
    return "";
  }
}
