/**
 * Remembers which of the servers of an address is the primary. The driver refuses a connection to any other
 * server. All pools of one address share this memory: when one pool moves on to the next server, the others follow.
 * So it is in the address (`database_url.ts`).
 */

import type { DatabaseUnavailable } from "./errors.ts";

export type Servers = ReturnType<typeof createServers>;

type Target = { readonly path: string } | { readonly host: string; readonly port: number };

/** Creates the memory; at first the first server is taken for the primary. */
export function createServers(targets: readonly Target[]) {
  let current = 0;
  return {
    count: targets.length,
    /** The index of the server that new connections go to. */
    get current(): number {
      return current;
    },
    get target() {
      return targets[current] as Target;
    },
    /** Moves to the next server, unless another caller has moved on since `from` was the current index. */
    moveOn(from: number): void {
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
