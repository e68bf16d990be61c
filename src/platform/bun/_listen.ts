import type { Listener, ListenOptions, Peer } from "../mod.ts";

type BunServer = Bun.Server<undefined>;

/** Listens by `Bun.serve`. */
export function listen(options: ListenOptions): Promise<Listener> {
  let server: BunServer;
  try {
    server = Bun.serve({
      hostname: options.host,
      port: options.port,
      development: false,
      // Said explicitly: with `development: false`, Bun 1.4.5 lets a second process have the same port.
      reusePort: false,
      maxRequestBodySize: options.maxBodyBytes,
      idleTimeout: options.idleTimeoutSeconds,
      fetch: (request, bunServer) => options.answer(request, new BunPeer(bunServer, request)),
      // Bun's own page would show a stack. `answer` catches what it can; this is the last resort.
      error: () => new Response(null, { status: 500 }),
    });
  } catch (error) {
    const where = `${options.host.includes(":") ? `[${options.host}]` : options.host}:${options.port}`;
    return Promise.reject(new Error(`Cannot listen on ${where}: ${toReason(error)}`, { cause: error }));
  }
  return Promise.resolve({
    host: server.hostname ?? options.host,
    port: server.port ?? options.port,
    stop: (deadlineMs) => stop(server, deadlineMs),
  });
}

/** A class, since one is made for every request: asking the system for the address costs 7 µs. */
class BunPeer implements Peer {
  readonly #server: BunServer;
  readonly #request: Request;

  constructor(server: BunServer, request: Request) {
    this.#server = server;
    this.#request = request;
  }

  address(): string {
    return this.#server.requestIP(this.#request)?.address ?? "";
  }
}

async function stop(server: BunServer, deadlineMs: number): Promise<void> {
  let cutOff: Timer | undefined;
  const deadline = new Promise<void>((resolve) => {
    cutOff = setTimeout(() => {
      // What it returns is not awaited: a handler that never ends must not hold up the shutdown.
      void server.stop(true);
      resolve();
    }, deadlineMs);
  });
  await Promise.race([server.stop(false), deadline]);
  clearTimeout(cutOff);
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: "the port is in use; stop what listens there or choose another port",
  EADDRNOTAVAIL: "this machine has no such address",
  EACCES: "not allowed; ports below 1024 need root or CAP_NET_BIND_SERVICE",
};

function toReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error ? String(error.code) : "";
  return reasons[code] ?? error.message;
}
