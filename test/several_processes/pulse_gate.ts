/**
 * A gate between one process and PostgreSQL. While the gate is open, it lets all bytes pass. While it is shut, it
 * holds the bytes of every connection that ever carried a pulse: the process still reaches its database, but does not
 * learn of changes.
 */
import { connect, createServer, type Socket } from "node:net";
import type { EmbeddedAddress } from "../../src/database/embedded/mod.ts";
import { until } from "../support/until.ts";

export interface PulseGate {
  /** The database's address through the gate. */
  readonly url: string;
  /**
   * Shuts the gate. Resolves when the running pulse, if any, has its answer, because that answer still
   * tells of changes.
   */
  shut(): Promise<void>;
  /** Opens the gate and passes on the bytes that were held. */
  open(): void;
  close(): Promise<void>;
}

/** Only the pulse sends this text, when it prepares its statement on a connection. */
const OF_THE_PULSE = "pg_current_snapshot";
/** ReadyForQuery outside a transaction, which ends every answer. Source: PostgreSQL's message formats. */
const END_OF_ANSWER = Buffer.from("5a0000000549", "hex");

export async function startPulseGate({ socketPath, user, database }: EmbeddedAddress): Promise<PulseGate> {
  const clients = new Set<Socket>();
  const held = new Map<Socket, Buffer[]>();
  /** Connections of the pulse that wait for an answer. */
  const asking = new Set<Socket>();
  let isShut = false;

  const listener = createServer((client) => {
    const server = connect(socketPath);
    let isPulse = false;
    clients.add(client);
    client.on("data", (bytes: Buffer) => {
      isPulse ||= bytes.includes(OF_THE_PULSE);
      if (isShut && isPulse) {
        held.set(server, [...(held.get(server) ?? []), bytes]);
        return;
      }
      if (isPulse) asking.add(client);
      server.write(bytes);
    });
    server.on("data", (bytes: Buffer) => {
      if (bytes.subarray(-END_OF_ANSWER.length).equals(END_OF_ANSWER)) asking.delete(client);
      client.write(bytes);
    });
    client.on("error", () => {});
    server.on("error", () => {});
    client.on("close", () => {
      clients.delete(client);
      asking.delete(client);
      held.delete(server);
      server.destroy();
    });
    server.on("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const bound = listener.address();
  if (typeof bound !== "object" || bound === null) throw new Error("The gate has no port");

  return {
    url: `postgres://${user}@127.0.0.1:${bound.port}/${database}`,
    async shut() {
      isShut = true;
      await until(() => asking.size === 0);
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
