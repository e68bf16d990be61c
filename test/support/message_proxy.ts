/**
 * A proxy before PostgreSQL that reads the protocol and can fail at any message of it: the one that was chosen
 * does not arrive, or arrives late, on every connection that comes to it while the fault is armed.
 */
import { connect, createServer, type Socket } from "node:net";

export type Action =
  /** The connection is cut instead of the message. */
  | "cut"
  /** The same for its client with a reset, which is an error to it. */
  | "reset"
  /** The message, and what follows it in its direction, waits longer than every deadline. */
  | "delay"
  /** Its receiver gets the end of the stream instead; what the other side sends still arrives. */
  | "half_close"
  /** Every connection is cut, and from then on new ones are accepted and closed at once. */
  | "accept_close";

/** Those that connections meet under the crash test. */
export const ACTIONS: readonly Action[] = ["cut", "delay", "half_close", "accept_close"];

/** Who sends a message, and its type: PostgreSQL's letter, or `startup`. */
export type MessageName = `${"client" | "server"} ${string}`;

export interface Trap {
  readonly message: MessageName;
  readonly action: Action;
}

export interface MessageProxy {
  readonly port: number;
  arm(trap: Trap): void;
  /** Holds back everything on the connections on which the pulse is felt, also on those that begin it. */
  holdPulse(): void;
  /** Ends every fault; what was held back passes. */
  release(): void;
  /** How often the armed fault has happened. */
  fired(): number;
  /** Cuts every connection, so that new ones are made. */
  cutAll(): void;
  /** Every message that was seen so far. */
  seen(): ReadonlyMap<MessageName, number>;
  open(): number;
  close(): Promise<void>;
}

/** The longest deadline of the service is 2 s, for a commit. */
const DELAY_MS = 2_500;
/** More than the service has any business opening. */
const MAX_CONNECTIONS = 200;
/** A word of the one statement that the pulse is. */
const PULSE_MARK = Buffer.from('as "connection"');

interface Flow {
  readonly from: "client" | "server";
  readonly source: Socket;
  readonly sink: Socket;
  buffer: Buffer<ArrayBufferLike>;
  /** While set, nothing is passed on. */
  timer: ReturnType<typeof setTimeout> | undefined;
  isDead: boolean;
  /** The message that was delayed already: it passes when its time is over. */
  isDue: boolean;
  hasStarted: boolean;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  readonly flows: readonly Flow[];
  isPulse: boolean;
}

/** Where the server is: its unix socket, or its port on a host. */
export type Target = { readonly path: string } | { readonly host: string; readonly port: number };

/** Stands on 127.0.0.1 before that server, on a port that the system chooses unless one is given. */
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

  /** Passes on what is whole, up to a message at which something is to happen. */
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

/** Takes the first message out of what has arrived; undefined while it is not whole. */
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
