/**
 * Tests the page `replicas` of the guide: three services behind HAProxy, with the configuration that the
 * page shows.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import { makeCertificate } from "../support/certificates.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { haproxy, shownConfig, startBalancer } from "../support/haproxy.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { useFolder } from "../support/use_folder.ts";

if (haproxy === null) console.warn("No haproxy on this machine: three replicas behind it are not tried");

/** The contract's limit of validate. */
const LIMIT = 100;
const REQUESTS = 130;

const folder = useFolder();

test.skipIf(haproxy === null)("HAProxy accepts the configuration for three hosts", () => {
  const shown = shownConfig("haproxy-hosts");
  expect(shown.match(/\/etc\/haproxy\/[\w-]+\.\w+/g)?.length).toBe(3);
  for (const name of ["licenses", "admin", "services-ca"]) {
    const { certFile, keyFile } = makeCertificate(folder, name);
    writeFileSync(join(folder, `${name}.pem`), readFileSync(certFile));
    appendFileSync(join(folder, `${name}.pem`), readFileSync(keyFile));
  }
  const file = join(folder, "hosts.cfg");
  writeFileSync(file, shown.replaceAll("/etc/haproxy/", `${folder}/`));
  const { exitCode, stderr } = Bun.spawnSync([haproxy ?? "", "-c", "-f", file]);
  expect([exitCode, stderr.toString()]).toEqual([0, ""]);
});

describe.skipIf(haproxy === null)("three replicas behind HAProxy", () => {
  let database: TestDatabase;
  let replicas: TestService[];
  let balancer: Awaited<ReturnType<typeof startBalancer>>;

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

    balancer = await startBalancer(
      folder,
      replicas.map(({ url }) => Number(new URL(url).port)),
    );
  });
  afterAll(async () => {
    await balancer.close();
    for (const replica of replicas) await replica.close();
    await database.close();
  });

  /** Sends the requests, and expects that `limit` of them are accepted and the others refused. */
  async function expectAdmitted(limit: number, ask: () => Promise<Response>): Promise<void> {
    const counts: Record<number, number> = {};
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        for (let each = 0; each < REQUESTS / 10; each++) {
          const { status } = await ask();
          counts[status] = (counts[status] ?? 0) + 1;
        }
      }),
    );
    // 503: on a busy machine the pulse may be late. Such a request may have taken a place in the window.
    const { 200: accepted = 0, 429: refused = 0, 503: late = 0 } = counts;
    expect(accepted + refused + late).toBe(REQUESTS);
    expect(accepted).toBeWithin(limit - late, limit + 1);
  }
  async function issue(): Promise<string> {
    const { apiKey } = await (replicas[0] as TestService).issue({
      email: `${crypto.randomUUID()}@example.org`,
    });
    return apiKey;
  }

  test("admit together exactly the limit of a key that the header names", async () => {
    const headers = { "X-API-Key": await issue() };
    await expectAdmitted(LIMIT, () => fetch(`${balancer.url}/v1/auth/validate`, { method: "POST", headers }));
  });

  test("admit together exactly the limit of a key that the body names", async () => {
    const body = JSON.stringify({ api_key: await issue() });
    await expectAdmitted(LIMIT, () => fetch(`${balancer.url}/v1/auth/validate`, { method: "POST", body }));
  });

  test("admit together exactly the limit of a key that the address names", async () => {
    const apiKey = await issue();
    await expectAdmitted(60, () => fetch(`${balancer.url}/v1/models/list?api_key=${apiKey}`));
  });

  test("share the keys among all three", async () => {
    const answered = () =>
      replicas.map(({ logLines }) => logLines.filter((line) => line.includes("validate")).length);
    const before = answered();
    for (let each = 0; each < 40; each++) {
      const headers = { "X-API-Key": await issue() };
      const { status } = await fetch(`${balancer.url}/v1/auth/validate`, { method: "POST", headers });
      // 503: as above.
      expect([200, 503]).toContain(status);
    }
    const after = answered();
    expect(after.map((now, index) => now - (before[index] ?? 0)).filter((more) => more > 0)).toHaveLength(3);
  });
});
