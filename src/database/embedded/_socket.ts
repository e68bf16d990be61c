/** The unix socket of a cluster: its address, and whether a server answers there. */
import { closeSync, constants, openSync } from "node:fs";
import { connect } from "node:net";
import type { DatabaseAddress } from "../database_url.ts";
import { DATABASE, SUPERUSER } from "./_cluster.ts";

/**
 * The address of the server for the driver. Valid only in this process and only until `stop`, because the path of its
 * socket goes through an open file descriptor.
 */
export type EmbeddedAddress = Extract<DatabaseAddress, { readonly socketPath: string }>;

/** Tells whether a server accepts connections on the socket; waits at most 1 s. */
export function accepts(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    const end = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.setTimeout(1000, () => end(false));
    socket.on("connect", () => end(true));
    socket.on("error", () => end(false));
  });
}

/**
 * Opens the folder of the socket and returns an address through its descriptor. The path of a unix socket may have
 * only 107 bytes; through the descriptor it has about thirty.
 */
export function openSocketFolder(cluster: string): { address: EmbeddedAddress; close(): void } {
  const fd = openSync(cluster, constants.O_RDONLY | constants.O_DIRECTORY);
  const socketPath = `/proc/self/fd/${fd}/.s.PGSQL.5432`;
  return { address: { socketPath, user: SUPERUSER, database: DATABASE }, close: () => closeSync(fd) };
}
