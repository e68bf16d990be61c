import { expect, test } from "bun:test";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { describeListener } from "../../../src/base/host/mod.ts";
import { asNobody } from "../../support/as_nobody.ts";
import { findFreePort } from "../../support/find_free_port.ts";
import { isRoot } from "../../support/is_root.ts";

const asRoot = isRoot("describeListener() on a process of another user");

async function listenAt(host: string) {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return { port: (server.address() as { port: number }).port, [Symbol.dispose]: () => void server.close() };
}

test.each(["127.0.0.1", "::1", "0.0.0.0"])(
  "describeListener() names the process that listens at %s",
  async (host) => {
    using server = await listenAt(host);
    const name = readFileSync("/proc/self/comm", "utf8").trim();
    expect(describeListener(server.port)).toBe(`${name} (process ${process.pid})`);
  },
);

test("describeListener() finds nobody at a free port", async () => {
  expect(describeListener(await findFreePort())).toBeUndefined();
});

test("describeListener() does not take the port of a connection for one that a program listens at", async () => {
  using server = await listenAt("127.0.0.1");
  const client = connect(server.port, "127.0.0.1");
  await once(client, "connect");
  const found = describeListener(client.localPort ?? 0);
  client.destroy();
  expect(found).toBeUndefined();
});

test.skipIf(!asRoot)(
  "describeListener() names the user of a process that this user may not look into",
  async () => {
    const program = `
    const server = require("node:net").createServer();
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));`;
    const other = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
    const { value } = await other.stdout.getReader().read();
    const port = Number(new TextDecoder().decode(value));
    asNobody(() => expect(describeListener(port)).toBe("a process of user root"));
    expect(describeListener(port)).toEndWith(`(process ${other.pid})`);
    other.kill();
    await other.exited;
  },
);
