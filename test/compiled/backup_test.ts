/**
 * Takes a backup with the executable while it serves under load, restores it into an operator's own PostgreSQL, and
 * restores a backup of that into the embedded one. All events acknowledged before a backup are there each time.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { testBytes } from "../support/hosted.ts";
import { until } from "../support/until.ts";
import { type Installed, type Issued, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

const CLIENTS = 16;
const BYTES = testBytes(1_234_567);
const SHA256 = hash("sha256", BYTES);
const PUBLIC = { CLAVIGER_PUBLIC_URL: "http://licenses.example.org" };

describe.skipIf(!isBuilt)("the executable's backup", () => {
  let source: Installed;
  let inside: Installed;
  let external: TestDatabase;
  /** Gives the external database an address that another process can use. */
  let proxy: FaultyProxy;
  let env: Record<string, string>;
  const keys: Issued[] = [];
  const acknowledged: string[] = [];
  let before: readonly string[] = [];

  beforeAll(async () => {
    source = install();
    inside = install();
    external = await createTestDatabase({ empty: true });
    proxy = await startFaultyProxy(external.address);
    await source.start({ env: PUBLIC });
    for (let count = 0; count < CLIENTS; count++) keys.push(await source.issue());
    writeFileSync(join(source.place.folder, "m"), BYTES);
    const options = "--type SvcLDA --paradigm p300 --n-features 1 --n-classes 2 --requires-license free";
    const model = ["--name", "m", "--version", "1", "--file", join(source.place.folder, "m")];
    await source.json(["models", "add", ...model, ...options.split(" ")], PUBLIC);
  });
  afterAll(async () => {
    await source.remove();
    await inside.remove();
    await proxy.close();
    await external.close();
  });

  const saved = (name: string) => join(source.place.folder, name);

  test("can be taken while the service runs, and verifies as whole", async () => {
    let isOver = false;
    const statuses = new Set<number>();
    const clients = keys.map(async ({ api_key: apiKey }) => {
      while (!isOver) {
        const event = { api_key: apiKey, event_type: "inference" };
        const { status, body } = await source.post("/v1/analytics/log", event);
        statuses.add(status);
        if (status === 202) acknowledged.push(body.event_id);
      }
    });
    await until(() => acknowledged.length > 500);
    before = [...acknowledged];
    const made = await source.json(["backup", saved("b.tar.zst"), "--with-secret", "--with-models"], PUBLIC);
    isOver = true;
    await Promise.all(clients);
    expect([...statuses]).toEqual([202]);
    expect(acknowledged.length).toBeGreaterThan(before.length);
    expect(made).toMatchObject({
      with_secret: true,
      with_models: true,
      models: 1,
      tables: { keys: CLIENTS },
    });
    const { status, out } = await source.place.run(["backup", "--verify", saved("b.tar.zst"), "--json"]);
    expect({ status, whole: JSON.parse(out).whole }).toEqual({ status: 0, whole: true });
    await source.service.stop("SIGINT");
  });

  test("can be restored into an operator's PostgreSQL, and a service runs on it", async () => {
    env = {
      ...PUBLIC,
      DATABASE_URL: proxy.address.url,
      CLAVIGER_SECRET: readFileSync(join(source.dataDir, "secret"), "utf8").trim(),
    };
    const restored = await inside.run(["restore", saved("b.tar.zst")], env);
    expect({ status: restored.status, err: restored.err }).toMatchObject({ status: 0 });
    const rows = await external.database.query<{ id: string }>(
      (sql) => sql`select 'evt_' || replace(id::text, '-', '') as id from events`,
    );
    const ids = new Set(rows.map(({ id }) => id));
    expect(before.filter((id) => !ids.has(id))).toEqual([]);

    await inside.start({ env });
    await expectToServe(inside, ids.size);
    // A restore into a database in use is refused.
    const again = await inside.run(["restore", saved("b.tar.zst")], env);
    expect(again.status).toBe(1);
    expect(again.err).toContain("not empty");
  });

  test("can be restored into the embedded PostgreSQL, with every event since then", async () => {
    const event = { api_key: keys[0]?.api_key, event_type: "inference" };
    expect((await inside.post("/v1/analytics/log", event)).status).toBe(202);
    const backup = await inside.run(["backup", saved("c.tar.zst"), "--with-secret", "--with-models"], env);
    expect(backup.status).toBe(0);
    await inside.service.stop("SIGINT");
    const [row] = await external.database.query<{ count: number }>(
      (sql) => sql`select count(*) as count from events`,
    );

    const target = join(source.place.folder, "another");
    const restored = await source.place.run(["restore", saved("c.tar.zst"), "--data-dir", target]);
    expect({ status: restored.status, err: restored.err }).toMatchObject({ status: 0 });
    const service = await source.place.serve(target, { env: PUBLIC });
    await expectToServe({ ...source, service, dataDir: target }, row?.count ?? 0);
    await service.stop("SIGINT");
  });

  /** Checks that the keys are good, the months count the stored events, and the model is complete. */
  async function expectToServe(
    { service: { url }, dataDir }: Pick<Installed, "service" | "dataDir">,
    events: number,
  ): Promise<void> {
    let used = 0;
    for (const { api_key: apiKey, email } of keys) {
      const body = JSON.stringify({ api_key: apiKey });
      const answer = await fetch(`${url}/v1/auth/validate`, { method: "POST", body });
      const validated = (await answer.json()) as { email: string; quota: { used: number } };
      expect([answer.status, validated.email]).toEqual([200, email]);
      used += validated.quota.used;
    }
    expect(used).toBe(events);
    const headers = { "X-API-Key": keys[0]?.api_key ?? "" };
    const loaded = await fetch(`${url}/v1/models/download/m/1`, { headers });
    expect(hash("sha256", await loaded.bytes())).toBe(SHA256);
    expect(dataDir).not.toBe(source.dataDir);
  }
});
