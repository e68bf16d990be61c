/** No client may notice a stop or a new certificate while requests arrive. */
import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import type { Answer, Listener, TlsPair } from "../../../src/base/platform/mod.ts";
import { makeCertificate, shownFingerprint } from "../../support/certificates.ts";
import { until } from "../../support/until.ts";
import { useFolder } from "../../support/use_folder.ts";
import { useUndo } from "../../support/use_undo.ts";

const folder = useFolder();
const undo = useUndo();

/** Both loopback addresses, if this host has IPv6. */
const ADDRESSES = ["127.0.0.1", "::1"].filter((host) =>
  Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === host)),
);

interface Listening {
  readonly host?: string;
  readonly answer?: Answer;
  readonly port?: number;
  readonly tls?: TlsPair;
}

async function listen({
  host = "127.0.0.1",
  answer = () => new Response("ok"),
  port = 0,
  tls,
}: Listening): Promise<Listener> {
  const options = { host, port, maxBodyBytes: 1000, idleTimeoutSeconds: 30, answer };
  const listener = await bunPlatform.listen({ ...options, ...(tls && { tls }) });
  undo.push(() => listener.stop(0));
  return listener;
}

describe("listen() with TLS", () => {
  test("refuses the port to a second service, with and without TLS", async () => {
    const tls = makeCertificate(folder, "one");
    const { port } = await listen({ tls });
    const plain = await listen({});
    for (const second of [{ port, tls }, { port }, { port: plain.port, tls }])
      await expect(listen(second)).rejects.toThrow("the port is in use");
  });

  test("renewTls() presents another certificate, and no connection fails during the change", async () => {
    const pairs = [makeCertificate(folder, "one"), makeCertificate(folder, "two")] as const;
    const listener = await listen({ tls: pairs[0] });
    const failures: string[] = [];
    const seen = new Set<string>();
    let done = 0;
    let running = true;
    const client = async () => {
      while (running) {
        try {
          const { fingerprint } = await shownFingerprint(listener.port);
          seen.add(fingerprint);
          done++;
        } catch (error) {
          failures.push(String(error));
        }
      }
    };
    const clients = Array.from({ length: 24 }, client);
    try {
      for (const pair of [pairs[1], pairs[0], pairs[1]]) {
        const before = done;
        await until(() => done > before + 100);
        await listener.renewTls?.(pair);
      }
    } finally {
      running = false;
    }
    await Promise.all(clients);
    expect(failures).toEqual([]);
    expect([...seen].sort()).toEqual(pairs.map(({ fingerprint }) => fingerprint).sort());
    expect((await shownFingerprint(listener.port)).fingerprint).toBe(pairs[1].fingerprint);
  }, 45_000);

  test("renewTls() keeps its certificate if the new pair does not match", async () => {
    const good = makeCertificate(folder, "one");
    const listener = await listen({ tls: good });
    const bad = { certificate: good.certificate, privateKey: makeCertificate(folder, "two").privateKey };
    await expect(listener.renewTls?.(bad)).rejects.toThrow();
    expect((await shownFingerprint(listener.port)).fingerprint).toBe(good.fingerprint);
  });
});

describe("stop() under load", () => {
  /** Sends one request on its own connection, and returns how it ended. */
  function ask(port: number): Promise<"answered" | "refused" | "lost"> {
    return new Promise((resolve) => {
      let sent = false;
      let text = "";
      const socket = connect({ port, host: "127.0.0.1" }, () => {
        sent = true;
        socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      });
      const end = () => {
        const answered = text.startsWith("HTTP/1.1 200");
        resolve(answered ? "answered" : sent ? "lost" : "refused");
        socket.destroy();
      };
      socket.on("data", (chunk) => {
        text += chunk;
        if (text.endsWith("ok")) end();
      });
      socket.on("error", end);
      socket.on("close", end);
      // The first packet of this connection was dropped. The kernel would send another one after a second.
      setTimeout(() => sent || end(), 700);
    });
  }

  async function slowly(): Promise<Response> {
    // Requests are still running when the stop comes.
    await Bun.sleep(2);
    return new Response("ok");
  }

  test("answers every connection that was accepted", async () => {
    const totals = { answered: 0, refused: 0, lost: 0 };
    for (let round = 0; round < 3; round++) {
      const listener = await listen({ answer: slowly });
      let running = true;
      const client = async () => {
        while (running) {
          const outcome = await ask(listener.port);
          totals[outcome]++;
          if (outcome === "refused") return;
        }
      };
      const before = totals.answered;
      const clients = Array.from({ length: 64 }, client);
      try {
        await until(() => totals.answered > before + 200);
        const stopping = listener.stop(3000);
        // A busy machine can leave the process no turn for longer than the last connections have.
        if (round > 0) Bun.sleepSync(150);
        await stopping;
      } finally {
        running = false;
      }
      await Promise.all(clients);
    }
    expect(totals.lost).toBe(0);
  }, 45_000);

  test.each(ADDRESSES)("answers a request at %s whose packets come while it stops", async (host) => {
    const listener = await listen({ host, answer: async (request) => new Response(await request.text()) });
    // The kernel completes the server's side of a handshake when the first data come.
    const socket = connect({ port: listener.port, host });
    await once(socket, "connect");
    const stopping = listener.stop(3000);
    await Bun.sleep(15);
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf");
    await Bun.sleep(1);
    socket.write(" done");
    let text = "";
    for await (const chunk of socket) text += chunk;
    expect(text).toEndWith("half done");
    await stopping;
  });
});
