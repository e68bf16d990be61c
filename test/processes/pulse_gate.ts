/**
 * Stands between one process and PostgreSQL, and lets everything pass. While it is shut, it holds what comes
 * on a connection that ever carried a pulse: the process goes on reaching its database, and hears of no
 * change in it.
 */
import { connect, createServer, type Socket } from "node:net";
import type { EmbeddedAddress } from "../../src/database/embedded/mod.ts";

export interface PulseGate {
  /** Where the database is, seen through the gate. */
  readonly url: string;
  shut(): void;
  /** Lets what was held pass, too. */
  open(): void;
  close(): Promise<void>;
}

/** Said by the pulse alone, when its statement is prepared on a connection. */
const OF_THE_PULSE = "pg_current_snapshot";

export async function startPulseGate({ socketPath, user, database }: EmbeddedAddress): Promise<PulseGate> {
  const clients = new Set<Socket>();
  const held = new Map<Socket, Buffer[]>();
  let isShut = false;

  const listener = createServer((client) => {
    const server = connect(socketPath);
    let isPulse = false;
    clients.add(client);
    client.on("data", (bytes: Buffer) => {
      isPulse ||= bytes.includes(OF_THE_PULSE);
      if (isShut && isPulse) held.set(server, [...(held.get(server) ?? []), bytes]);
      else server.write(bytes);
    });
    server.on("data", (bytes) => client.write(bytes));
    client.on("error", () => {});
    server.on("error", () => {});
    client.on("close", () => {
      clients.delete(client);
      held.delete(server);
      server.destroy();
    });
    server.on("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const bound = listener.address();
  if (typeof bound !== "object" || bound === null) throw new Error("It has no port");

  return {
    url: `postgres://${user}@127.0.0.1:${bound.port}/${database}`,
    shut() {
      isShut = true;
    },
    open() {
      isShut = false;
      for (const [server, parts] of held) for (const part of parts) server.write(part);
      held.clear();
    },
    async close() {
      for (const client of clients) client.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
