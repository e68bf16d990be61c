/**
 * A proxy in front of PostgreSQL that reads the protocol and can fail at any chosen message. While the fault is armed,
 * that message is lost or late on every connection on which it appears.
 */
import { connect, createServer, type Socket } from "node:net";

export type Action =
  /** The connection is cut in place of the message. */
  | "cut"
  /** The same, but the client gets a reset, which it reports as an error. */
  | "reset"
  /** The message, and everything after it in its direction, waits longer than every deadline of the service. */
  | "delay"
  /** The receiver gets the end of the stream in place of the message; the other direction still works. */
  | "half_close"
  /** Every connection is cut; after that, new connections are accepted and closed at once. */
  | "accept_close";

/** The actions that the crash test uses. */
export const ACTIONS: readonly Action[] = ["cut", "delay", "half_close", "accept_close"];

/** The sender of a message, and the message's type: PostgreSQL's letter, or `startup`. */
export type MessageName = `${"client" | "server"} ${string}`;

export interface Trap {
  readonly message: MessageName;
  readonly action: Action;
}

export interface MessageProxy {
  readonly port: number;
  arm(trap: Trap): void;
  /** Holds back everything on the connections that carry the pulse, and on connections that begin with it. */
  holdPulse(): void;
  /** Ends every fault and passes on all bytes that were held back. */
  release(): void;
  /** How often the armed fault has happened. */
  fired(): number;
  /** Cuts every connection, so that the client opens new ones. */
  cutAll(): void;
  /** Every message type seen so far. */
  seen(): ReadonlyMap<MessageName, number>;
  open(): number;
  close(): Promise<void>;
}

/** The longest deadline of the service is 2 s, for a commit. */
const DELAY_MS = 2_500;
/** More than the service ever needs. */
const MAX_CONNECTIONS = 200;
/** A word that only the pulse's statement contains. */
const PULSE_MARK = Buffer.from('as "connection"');

interface Flow {
  readonly from: "client" | "server";
  readonly source: Socket;
  readonly sink: Socket;
  buffer: Buffer<ArrayBufferLike>;
  /** While this is set, the flow passes on no bytes. */
  timer: ReturnType<typeof setTimeout> | undefined;
  isDead: boolean;
  /** The message was delayed already; it passes when its delay is over. */
  isDue: boolean;
  hasStarted: boolean;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  readonly flows: readonly Flow[];
  isPulse: boolean;
}

/** Where the server listens: a unix socket, or a port of a host. */
export type Target = { readonly path: string } | { readonly host: string; readonly port: number };

/**
 * Starts a proxy on 127.0.0.1 in front of the server, on `atPort` or, without one, on a free port.
 *
 * One long function, because its functions share the connections and the trap.
 */
export async function startMessageProxy(target: Target, atPort = 0): Promise<MessageProxy> {
  const links = new Set<Link>();
  const seen = new Map<MessageName, number>();
  let trap: Trap | undefined;
  let isPulseHeld = false;
  let isClosing = false;
  let fired = 0;

  const listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    client.on("error", () => client.destroy());
    if (isClosing || links.size >= MAX_CONNECTIONS) {
      client.destroy();
      return;
    }
    const server = connect({ ...target, allowHalfOpen: true });
    server.on("error", () => client.destroy());
    const flow = (from: Flow["from"], source: Socket, sink: Socket): Flow => ({
      ...{ from, source, sink, buffer: Buffer.alloc(0), timer: undefined },
      ...{ isDead: false, isDue: false, hasStarted: from === "server" },
    });
    const flows = [flow("client", client, server), flow("server", server, client)];
    const link: Link = { client, server, flows, isPulse: false };
    links.add(link);
    const cut = () => drop(link);
    for (const one of flows) {
      one.source.on("data", (bytes: Buffer) => {
        one.buffer = one.buffer.length === 0 ? bytes : Buffer.concat([one.buffer, bytes]);
        pass(link, one);
      });
      one.source.on("end", () => !one.isDead && one.sink.end());
      one.source.on("close", cut);
    }
  });
  await new Promise<void>((resolve) => listener.listen(atPort, "127.0.0.1", resolve));
  const bound = listener.address();

  function drop(link: Link): void {
    links.delete(link);
    for (const { timer } of link.flows) clearTimeout(timer);
    link.client.destroy();
    link.server.destroy();
  }

  /** Passes on complete messages, up to a message at which the fault is to happen. */
  function pass(link: Link, flow: Flow): void {
    while (flow.timer === undefined && !(link.isPulse && isPulseHeld)) {
      const message = takeMessage(flow);
      if (message === undefined) return;
      const { name, bytes } = message;
      if (flow.isDead) continue;
      if (name === "client P" && bytes.includes(PULSE_MARK)) {
        link.isPulse = true;
        if (isPulseHeld) {
          flow.buffer = Buffer.concat([bytes, flow.buffer]);
          return;
        }
      }
      seen.set(name, (seen.get(name) ?? 0) + 1);
      if (trap?.message === name && !flow.isDue) {
        fired++;
        spring(link, flow, { action: trap.action, bytes });
        continue;
      }
      flow.isDue = false;
      flow.sink.write(bytes);
    }
  }

  function spring(link: Link, flow: Flow, { action, bytes }: { action: Action; bytes: Buffer }): void {
    switch (action) {
      case "cut":
        drop(link);
        return;
      case "reset":
        link.client.resetAndDestroy();
        drop(link);
        return;
      case "accept_close":
        isClosing = true;
        for (const open of links) drop(open);
        return;
      case "half_close":
        flow.isDead = true;
        flow.sink.end();
        return;
      case "delay":
        flow.buffer = Buffer.concat([bytes, flow.buffer]);
        flow.timer = setTimeout(() => resume(link, flow), DELAY_MS);
        return;
    }
  }

  function resume(link: Link, flow: Flow): void {
    clearTimeout(flow.timer);
    flow.timer = undefined;
    flow.isDue = true;
    pass(link, flow);
  }

  return {
    port: typeof bound === "object" ? (bound?.port ?? 0) : 0,
    arm(next) {
      trap = next;
      fired = 0;
    },
    holdPulse() {
      isPulseHeld = true;
    },
    release() {
      trap = undefined;
      isPulseHeld = false;
      isClosing = false;
      for (const link of links) {
        for (const flow of link.flows) {
          if (flow.timer !== undefined) resume(link, flow);
          else pass(link, flow);
        }
      }
    },
    fired: () => fired,
    cutAll() {
      for (const link of links) drop(link);
    },
    seen: () => seen,
    open: () => links.size,
    async close() {
      for (const link of links) drop(link);
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

/** Takes the first message out of the received bytes; returns undefined while the message is incomplete. */
function takeMessage(flow: Flow): { readonly name: MessageName; readonly bytes: Buffer } | undefined {
  const { buffer, from, hasStarted } = flow;
  const lengthAt = hasStarted ? 1 : 0;
  if (buffer.length < lengthAt + 4) return undefined;
  const end = lengthAt + buffer.readInt32BE(lengthAt);
  if (buffer.length < end) return undefined;
  flow.buffer = buffer.subarray(end);
  flow.hasStarted = true;
  const type = hasStarted ? String.fromCharCode(buffer[0] ?? 0) : "startup";
  return { name: `${from} ${type}`, bytes: buffer.subarray(0, end) };
}
