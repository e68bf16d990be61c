/** The unix socket of a cluster: how it is addressed, and whether anybody answers there. */
import { closeSync, constants, openSync } from "node:fs";
import { connect } from "node:net";
import { database, superuser } from "./_cluster.ts";

/** How the driver gets to the server. */
export interface EmbeddedAddress {
  /** Good in this process only, and only until `stop`: it goes through an open descriptor. */
  readonly socketPath: string;
  readonly user: string;
  readonly database: string;
}

/** Whether a server takes connections there. */
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

/** A unix socket's path may have 107 bytes; through a descriptor of its folder it has some thirty. */
export function openSocketFolder(cluster: string): { address: EmbeddedAddress; close(): void } {
  const fd = openSync(cluster, constants.O_RDONLY | constants.O_DIRECTORY);
  const socketPath = `/proc/self/fd/${fd}/.s.PGSQL.5432`;
  return { address: { socketPath, user: superuser, database }, close: () => closeSync(fd) };
}
