/**
 * Tests the page `replicas` of the guide: three services behind HAProxy, with the configuration that the
 * page shows.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findPage } from "../../src/cli/guide/pages.ts";
import { parseTrustedProxies } from "../../src/limits/mod.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { testFolder } from "../support/postgres.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(30_000);

const haproxy = Bun.which("haproxy", { PATH: `${process.env.PATH}:/usr/sbin` });
if (haproxy === null) console.warn("No haproxy on this machine: three replicas behind it are not tried");

/** The contract's limit of validate. */
const LIMIT = 100;
const REQUESTS = 130;

describe.skipIf(haproxy === null)("three replicas behind HAProxy", () => {
  let database: TestDatabase;
  let replicas: TestService[];
  let balancer: Bun.Subprocess;
  let url: string;
  let folder: string;

  beforeAll(async () => {
    database = await createTestDatabase();
    const trusted = parseTrustedProxies("127.0.0.1");
    const config = { trustedProxies: trusted.ok ? trusted.proxies : [] };
    const options = { on: database, limits: "default", config } as const;
    replicas = [
      await startTestService(options),
      await startTestService(options),
      await startTestService(options),
    ];

    const port = await findFreePort();
    url = `http://127.0.0.1:${port}`;
    const [, shown = ""] = /^```haproxy\n(.*?)^```$/ms.exec(findPage("replicas")?.text ?? "") ?? [];
    const text = ["8091", "8092", "8093"].reduce(
      (moved, each, index) => moved.replace(each, new URL(replicas[index]?.url ?? "").port),
      shown.replace("127.0.0.1:8000", `127.0.0.1:${port}`),
    );
    folder = mkdtempSync(join(testFolder(), "balancer-"));
    writeFileSync(join(folder, "haproxy.cfg"), text);
    balancer = Bun.spawn([haproxy ?? "", "-f", join(folder, "haproxy.cfg")], {
      stdout: "ignore",
      stderr: "ignore",
    });
    await until(async () => (await fetch(`${url}/api/health`).catch(() => undefined))?.status === 200);
  });
  afterAll(async () => {
    balancer.kill();
    await balancer.exited;
    for (const replica of replicas) await replica.close();
    await database.close();
    rmSync(folder, { recursive: true });
  });

  /** Counts the answers by status. */
  async function count(ask: () => Promise<Response>): Promise<Record<number, number>> {
    const counts: Record<number, number> = {};
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        for (let each = 0; each < REQUESTS / 10; each++) {
          const { status } = await ask();
          counts[status] = (counts[status] ?? 0) + 1;
        }
      }),
    );
    return counts;
  }
  async function issue(): Promise<string> {
    const { apiKey } = await (replicas[0] as TestService).issue({
      email: `${crypto.randomUUID()}@example.org`,
    });
    return apiKey;
  }
  const exact = { 200: LIMIT, 429: REQUESTS - LIMIT };

  test("admit together exactly the limit of a key that the header names", async () => {
    const headers = { "X-API-Key": await issue() };
    expect(await count(() => fetch(`${url}/v1/auth/validate`, { method: "POST", headers }))).toEqual(exact);
  });

  test("admit together exactly the limit of a key that the body names", async () => {
    const body = JSON.stringify({ api_key: await issue() });
    expect(await count(() => fetch(`${url}/v1/auth/validate`, { method: "POST", body }))).toEqual(exact);
  });

  test("admit together exactly the limit of a key that the address names", async () => {
    const apiKey = await issue();
    const counts = await count(() => fetch(`${url}/v1/models/list?api_key=${apiKey}`));
    expect(counts).toEqual({ 200: 60, 429: REQUESTS - 60 });
  });

  test("share the keys among all three", async () => {
    const answered = () =>
      replicas.map(({ logLines }) => logLines.filter((line) => line.includes("validate")).length);
    const before = answered();
    for (let each = 0; each < 40; each++) {
      const headers = { "X-API-Key": await issue() };
      expect((await fetch(`${url}/v1/auth/validate`, { method: "POST", headers })).status).toBe(200);
    }
    const after = answered();
    expect(after.map((now, index) => now - (before[index] ?? 0)).filter((more) => more > 0)).toHaveLength(3);
  });
});
