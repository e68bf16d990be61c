/**
 * A program for Node that `node_proof.ts` bundles and runs. It listens with the platform under test, and reads orders
 * from its standard input. `node node_listener.mjs PORT IDLE_SECONDS FILE` prints one JSON line when it listens or
 * cannot listen, and one for each order: `stop MS` stops the listener.
 */
import { statSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Peer } from "../../../src/base/platform/mod.ts";
import { nodePlatform } from "../../../src/base/platform/node/mod.ts";

const say = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function answer(request: Request, peer: Peer): Promise<Response> {
  switch (new URL(request.url).pathname) {
    case "/peer":
      return new Response(peer.address(request));
    case "/file": {
      const path = process.argv[4] ?? "";
      const range = request.headers.get("range") ?? `0-${statSync(path).size - 1}`;
      const [first = 0, last = 0] = range.split("-").map(Number);
      const body = nodePlatform.fileBody({ path, first, end: last + 1 });
      return new Response(body, { headers: { "Content-Length": String(last + 1 - first) } });
    }
    case "/peak":
      return new Response(String(process.resourceUsage().maxRSS));
    case "/slow":
      // The answer takes longer than a stop needs to begin.
      await sleep(150);
      return new Response("done");
    case "/never":
      return await new Promise<Response>(() => {});
    case "/fail":
      throw new Error("topsecret");
    default:
      return new Response(`${request.method} ${request.url} ${await request.text()}`);
  }
}

try {
  const listener = await nodePlatform.listen({
    host: "127.0.0.1",
    port: Number(process.argv[2]),
    maxBodyBytes: 1_000,
    idleTimeoutSeconds: Number(process.argv[3]),
    // This throws outside a promise: the adapter must handle that, too.
    answer: (request, peer) => {
      if (request.url.endsWith("/throw")) throw new Error("topsecret");
      return answer(request, peer);
    },
  });
  say({ host: listener.host, port: listener.port });
  for await (const line of createInterface({ input: process.stdin })) {
    const startedAt = performance.now();
    await listener.stop(Number(line.replace("stop ", "")));
    say({ ms: performance.now() - startedAt });
  }
} catch (error) {
  say({ error: String(error) });
}
