/**
 * Listens with `Bun.serve`, stops, and changes the certificate, without resetting a connection.
 *
 * A running `Bun.serve` keeps its first certificate; in 1.4.5 `server.reload({ tls })` does not change it. So a new
 * certificate needs a second server on the same port. New connections are sent to the second server before the first
 * one is stopped. For that both servers must be bound with `SO_REUSEPORT`, which would also let a second service of
 * the same user use the port. So the port is first bound once without `SO_REUSEPORT`, which fails if the port is in
 * use.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { lastResort } from "../last_resort.ts";
import { listenFailure } from "../listen_failure.ts";
import type { Listener, ListenOptions, Peer, TlsPair } from "../mod.ts";
import { answerWaiting, mayWait } from "./_expect.ts";
import { createGarbageCollection } from "./_garbage.ts";
import { admitAccepted, refuseNewConnections, steerToSecond } from "./_listening_socket.ts";

type BunServer = Bun.Server<undefined>;

/**
 * Turns of the event loop for accepting and reading when new connections are refused. Turns and not time, because a busy
 * machine may give the process none for a while. More turns if a connection lost packets, which come again after 0.2 s.
 */
const LAST_TURNS = 6;
const LAST_TURNS_AFTER_LOSS = 50;
const TURN_MS = 10;
/** For handshakes with an old certificate, before its server stops: long, because nothing waits for it. */
const LAST_TLS_HANDSHAKES_MS = 1_000;
/** A connection with an old certificate is cut off after this time. Most end before, by the idle timeout. */
const OLD_CONNECTIONS_MS = 60_000;

export async function listen(options: ListenOptions): Promise<Listener> {
  try {
    return start(options);
  } catch (error) {
    throw listenFailure(error, options);
  }
}

function start(options: ListenOptions): Listener {
  const countRequest = createGarbageCollection();
  // Binds the port for a moment without sharing it, which fails if another process uses it.
  const { tls: pair, ...plain } = options;
  const probe = pair && serve(plain, countRequest);
  const free = probe?.port ?? options.port;
  void probe?.stop(true);
  let current = serve({ ...options, port: free }, countRequest);
  const port = current.port ?? free;
  const retired = new Set<BunServer>();
  let renewing: Promise<void> = Promise.resolve();

  async function renew(tls: TlsPair): Promise<void> {
    const first = current;
    current = serve({ ...options, tls, port }, countRequest);
    steerToSecond(port);
    retired.add(first);
    await sleep(LAST_TLS_HANDSHAKES_MS);
    // Not awaited: connections may have requests in progress for long.
    void stopServer(first, OLD_CONNECTIONS_MS).then(() => retired.delete(first));
  }

  return {
    host: current.hostname ?? options.host,
    port,
    ...(pair && {
      renewTls(tls: TlsPair) {
        // One renewal at a time, because only two servers may share the port.
        renewing = renewing.catch(() => {}).then(() => renew(tls));
        return renewing;
      },
    }),
    async stop(deadlineMs) {
      const until = performance.now() + deadlineMs;
      const left = () => Math.max(0, until - performance.now());
      let turns = refuseNewConnections(port) ? LAST_TURNS : 0;
      for (let turn = 0; turn < turns && left() > deadlineMs / 2; turn++) {
        await sleep(TURN_MS);
        if (admitAccepted(port)) turns = LAST_TURNS_AFTER_LOSS;
      }
      await Promise.all([...retired, current].map((server) => stopServer(server, left())));
    },
  };
}

function serve(options: ListenOptions, countRequest: () => void): BunServer {
  const { answer, idleTimeoutSeconds, port, tls } = options;
  const server: BunServer = Bun.serve({
    hostname: options.host,
    port,
    development: false,
    // Set explicitly: with `development: false` alone, Bun 1.4.5 lets a second process use the same port.
    reusePort: tls !== undefined,
    ...(tls && { tls: { cert: tls.certificate, key: tls.privateKey } }),
    maxRequestBodySize: options.maxBodyBytes,
    idleTimeout: idleTimeoutSeconds,
    fetch(request) {
      countRequest();
      return mayWait(request) ? answerWaiting(request, peer, answer) : answer(request, peer);
    },
    // Also called when Bun cannot open the file of a response.
    error: lastResort,
  });
  const peer: Peer = { address: (request) => server.requestIP(request)?.address ?? "" };
  return server;
}

async function stopServer(server: BunServer, deadlineMs: number): Promise<void> {
  let cutOff: Timer | undefined;
  const deadline = new Promise<void>((resolve) => {
    cutOff = setTimeout(() => {
      // Not awaited: a handler that never ends must not delay the shutdown.
      void server.stop(true);
      resolve();
    }, deadlineMs);
  });
  await Promise.race([server.stop(false), deadline]);
  clearTimeout(cutOff);
}
