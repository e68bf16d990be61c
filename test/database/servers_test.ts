/** If an address names several servers, the client leaves one that does not answer after a second. */
import { expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { openDatabase, toDatabaseAddress } from "../../src/database/mod.ts";
import { startFaultyProxy } from "../support/faulty_proxy.ts";
import { useTestDatabase } from "../support/use.ts";

const CONNECT_MS = 1_000;
/** More connections than a listener's queue of unaccepted connections holds. */
const CONNECTIONS = 600;
const LISTENER = `require("node:net").createServer().listen(0, "127.0.0.1", function () {
  console.log(this.address().port);
})`;

const OPTIONS = { clock: systemClock, log: silentLog, maxConnections: 1, deadlineMs: 15_000 };

const server = useTestDatabase({ empty: true });

interface Silent extends AsyncDisposable {
  readonly place: string;
}

/** Starts a server whose process is stopped and whose queue is full: the kernel answers no further connection. */
async function startFullServer(): Promise<Silent> {
  const child = Bun.spawn([process.execPath, "-e", LISTENER], { stdout: "pipe", stdin: "ignore" });
  const { value } = await child.stdout.getReader().read();
  const port = Number(new TextDecoder().decode(value));
  child.kill("SIGSTOP");
  const waiting: Socket[] = [];
  for (let number = 0; number < CONNECTIONS; number++) {
    waiting.push(connect({ host: "127.0.0.1", port }).on("error", () => {}));
  }
  // The kernel fills the queue. The test cannot distinguish an unanswered connection from a late one, so it waits.
  await Bun.sleep(200);
  return {
    place: `127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of waiting) socket.destroy();
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}

/** Starts a server that accepts connections and sends nothing. */
async function startStalledServer(): Promise<Silent> {
  const proxy = await startFaultyProxy(server.address);
  proxy.set("stalled");
  return { place: new URL(proxy.address.url).host, [Symbol.asyncDispose]: () => proxy.close() };
}

test.each([
  ["takes no connection", startFullServer],
  ["takes connections and says nothing", startStalledServer],
])("openDatabase() goes on to the next server after a second where one %s", async (_, startSilent) => {
  await using silent = await startSilent();
  await using good = await startFaultyProxy(server.address);
  const { url } = good.address;
  const { host } = new URL(url);
  const address = toDatabaseAddress(url.replace(host, `${silent.place},${host}`));
  await using database = openDatabase(address, OPTIONS);
  const beganMs = performance.now();
  expect(await database.query((sql) => sql`select 1 as one`)).toMatchObject([{ one: 1 }]);
  const tookMs = performance.now() - beganMs;
  expect(tookMs).toBeGreaterThan(CONNECT_MS - 100);
  await using second = openDatabase(address, OPTIONS);
  const secondBeganMs = performance.now();
  await second.query((sql) => sql`select`);
  // All pools of the address know now which server answers.
  expect(performance.now() - secondBeganMs).toBeLessThan(CONNECT_MS - 100);
});
