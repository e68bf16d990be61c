/**
 * Remembers which of the servers of an address is the primary. The driver refuses a connection to any other. All
 * pools of one address share this memory: when one pool goes on to the next server, the others follow.
 */

import type { DatabaseAddress } from "./database_url.ts";
import { parseDatabaseUrl } from "./database_url.ts";
import type { DatabaseUnavailable } from "./errors.ts";

export interface Servers {
  readonly count: number;
  /** The number of the server that is dialled now. */
  readonly current: number;
  readonly place: Place;
  /** Goes on to the next server, unless that was done since `from` was current. */
  moveOn(from: number): void;
}

export type Place = { readonly path: string } | { readonly host: string; readonly port: number };

const known = new WeakMap<DatabaseAddress, Servers>();

export function serversOf(address: DatabaseAddress): Servers {
  const servers = known.get(address) ?? createServers(listPlaces(address));
  known.set(address, servers);
  return servers;
}

function listPlaces(address: DatabaseAddress): readonly Place[] {
  if (!("url" in address)) return [{ path: address.socketPath }];
  const url = parseDatabaseUrl(address.url);
  if (url === undefined) throw new Error("Cannot read the address of the database");
  return url.servers;
}

function createServers(places: readonly Place[]): Servers {
  let current = 0;
  return {
    count: places.length,
    get current() {
      return current;
    },
    get place() {
      return places[current] as Place;
    },
    moveOn(from) {
      if (from === current) current = (current + 1) % places.length;
    },
  };
}

/**
 * True when the server did not let the connection in, so that no statement was sent: it is a standby, it starts or
 * stops, or it does not answer.
 */
export function wasNotSent({ code }: DatabaseUnavailable): boolean {
  return code === "NOT_PRIMARY" || code === "57P03" || code === "CONNECT_TIMEOUT";
}
