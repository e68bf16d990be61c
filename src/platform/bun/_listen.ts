/**
 * Listens by `Bun.serve`, and stops and changes its certificate without a connection being reset.
 *
 * A running `Bun.serve` keeps the certificate that it began with (`server.reload({ tls })` too, in 1.4.5), so
 * a new one is a second server on the same port, to which new connections are steered before the first is
 * stopped. For that both must be bound with `SO_REUSEPORT`, which would also let a second service of the same
 * user in; so before the first, the port is bound without it once, which only a free port allows.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { lastResort } from "../last_resort.ts";
import { listenFailure } from "../listen_failure.ts";
import type { Listener, ListenOptions, Peer, TlsPair } from "../mod.ts";
import { createGarbage, type Garbage } from "./_garbage.ts";
import { listeningSockets, refuseNewConnections, steerToSecond } from "./_listening_socket.ts";

type BunServer = Bun.Server<undefined>;

/** For handshakes that are under way when nothing new is let in any more. */
const LAST_HANDSHAKES_MS = 60;
/** The same before a certificate's server stops: nobody waits for that, so slow networks get their time. */
const LAST_TLS_HANDSHAKES_MS = 1_000;
/** A connection that outlives its certificate by so long is cut off; most end when they have been idle. */
const OLD_CONNECTIONS_MS = 60_000;

export function listen(options: ListenOptions): Promise<Listener> {
  try {
    return Promise.resolve(start(options));
  } catch (error) {
    return Promise.reject(listenFailure(error, options));
  }
}

function start(options: ListenOptions): Listener {
  const garbage = createGarbage();
  // Held for a moment without sharing: fails where anybody has it.
  const probe = options.tls && serve(options, garbage, { tls: undefined, port: options.port });
  const port = probe?.port ?? options.port;
  void probe?.stop(true);
  let current = serve(options, garbage, { tls: options.tls, port });
  const retired = new Set<BunServer>();
  let renewing: Promise<void> = Promise.resolve();

  async function renew(tls: TlsPair): Promise<void> {
    const first = current;
    const firstSockets = listeningSockets(first.port ?? 0);
    current = serve(options, garbage, { tls, port: first.port ?? 0 });
    const [socket] = firstSockets;
    if (socket !== undefined) steerToSecond(socket);
    retired.add(first);
    await sleep(LAST_TLS_HANDSHAKES_MS);
    // What it returns is not awaited here: connections may have requests in hand for long.
    void stopServer(first, OLD_CONNECTIONS_MS).then(() => retired.delete(first));
  }

  return {
    host: current.hostname ?? options.host,
    port: current.port ?? options.port,
    ...(options.tls && {
      renewTls(tls: TlsPair) {
        // One at a time: only two servers may share the port.
        renewing = renewing.catch(() => {}).then(() => renew(tls));
        return renewing;
      },
    }),
    async stop(deadlineMs) {
      const until = performance.now() + deadlineMs;
      const left = () => Math.max(0, until - performance.now());
      if (deadlineMs > LAST_HANDSHAKES_MS && refuseNewConnections(listeningSockets(current.port ?? 0))) {
        await sleep(LAST_HANDSHAKES_MS);
      }
      await Promise.all([...retired, current].map((server) => stopServer(server, left())));
    },
  };
}

interface Binding {
  readonly tls: TlsPair | undefined;
  readonly port: number;
}

function serve(options: ListenOptions, garbage: Garbage, { tls, port }: Binding): BunServer {
  const { answer, idleTimeoutSeconds } = options;
  const server: BunServer = Bun.serve({
    hostname: options.host,
    port,
    development: false,
    // Said explicitly: with `development: false`, Bun 1.4.5 lets a second process have the same port.
    reusePort: tls !== undefined,
    ...(tls && { tls: { cert: tls.certificate, key: tls.privateKey } }),
    maxRequestBodySize: options.maxBodyBytes,
    idleTimeout: idleTimeoutSeconds,
    fetch(request) {
      garbage.countRequest();
      return answer(request, peer);
    },
    // Also where a file that Bun reads by itself cannot be opened.
    error: lastResort,
  });
  const peer: Peer = { address: (request) => server.requestIP(request)?.address ?? "" };
  return server;
}

async function stopServer(server: BunServer, deadlineMs: number): Promise<void> {
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
