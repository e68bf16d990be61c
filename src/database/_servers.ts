/**
 * Remembers which of the servers of an address is the primary. The driver refuses a connection to any other
 * server. All pools of one address share this memory: when one pool moves on to the next server, the others follow.
 */

import type { DatabaseAddress } from "./database_url.ts";
import { parseDatabaseUrl } from "./database_url.ts";
import type { DatabaseUnavailable } from "./errors.ts";

export interface Servers {
  readonly count: number;
  /** The index of the server that new connections go to. */
  readonly current: number;
  readonly target: Target;
  /** Moves to the next server, unless another caller has moved on since `from` was the current index. */
  moveOn(from: number): void;
}

export type Target = { readonly path: string } | { readonly host: string; readonly port: number };

const known = new WeakMap<DatabaseAddress, Servers>();

/** Returns the shared memory of an address; creates it at the first call. */
export function serversOf(address: DatabaseAddress): Servers {
  const servers = known.get(address) ?? createServers(listTargets(address));
  known.set(address, servers);
  return servers;
}

function listTargets(address: DatabaseAddress): readonly Target[] {
  if (!("url" in address)) return [{ path: address.socketPath }];
  const url = parseDatabaseUrl(address.url);
  if (url === undefined) throw new Error("Cannot read the address of the database");
  return url.servers;
}

function createServers(targets: readonly Target[]): Servers {
  let current = 0;
  return {
    count: targets.length,
    get current() {
      return current;
    },
    get target() {
      return targets[current] as Target;
    },
    moveOn(from) {
      if (from === current) current = (current + 1) % targets.length;
    },
  };
}

/**
 * Tells whether no statement was sent, because the server did not let the connection in: the server is a standby, it
 * is starting or stopping, or it does not answer.
 */
export function wasNotSent({ code }: DatabaseUnavailable): boolean {
  return code === "NOT_PRIMARY" || code === "57P03" || code === "CONNECT_TIMEOUT";
}
