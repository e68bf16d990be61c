/** The shop of the manual: a script that issues keys with a token that can do nothing else, while both are killed. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findKey, hashApiKey } from "../../src/keys/mod.ts";
import { startAdmin, type TestAdmin } from "../support/admin.ts";
import { createTestDatabase } from "../support/database.ts";

setDefaultTimeout(60_000);

const ORDERS = 100;
const SCRIPT = join(import.meta.dir, "shop.py");
const folder = mkdtempSync(join(tmpdir(), "claviger-shop-"));
const fileOf = (name: string) => join(folder, name);

let admin: TestAdmin;

let afterStatement = () => {};

beforeAll(async () => {
  const on = await createTestDatabase();
  const { database } = on;
  admin = await startAdmin({
    on,
    admin: {
      database: {
        ...database,
        async query(build, options) {
          const rows = await database.query(build, options);
          afterStatement();
          return rows as never[];
        },
      },
    },
  });
});
afterAll(async () => {
  await admin.close();
  await admin.testDatabase.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("the shop's script", () => {
  test("issues exactly one key for each of 100 orders, although it is killed and started again at random", async () => {
    const token = await admin.token({
      scopes: ["keys:issue"],
      restriction: { tiers: ["free"], mode: "live" },
    });
    const orders = Array.from(
      { length: ORDERS },
      (_, index) => `2026-${index},buyer-${index % 40}@example.org`,
    );
    writeFileSync(fileOf("orders.csv"), `${orders.join("\n")}\n`);
    const env = { PATH: process.env.PATH ?? "", CLAVIGER_ADMIN_URL: admin.url, CLAVIGER_TOKEN: token };
    const start = () =>
      Bun.spawn(["python3", SCRIPT], { cwd: folder, env, stdout: "inherit", stderr: "inherit" });
    let kills = 0;
    for (;;) {
      const shop = start();
      // At any moment between two statements of a request, also between the commit and the answer.
      let statements = Math.ceil(Math.random() * 80);
      afterStatement = () => {
        if (--statements === 0) shop.kill("SIGKILL");
      };
      await shop.exited;
      if (shop.signalCode === null) {
        expect(shop.exitCode).toBe(0);
        break;
      }
      kills++;
    }
    // An order needs three statements, so there are at least four starts.
    expect(kills).toBeGreaterThanOrEqual(3);
    const delivered = readFileSync(fileOf("keys.csv"), "utf8").trim().split("\n");
    expect(delivered.map((line) => line.split(",")[0])).toEqual(orders.map((line) => line.split(",")[0]));
    const [rows] = await admin.database.query<{ keys: number; licenses: number; accounts: number }>(
      (sql) => sql`
        select (select count(*) from keys) as keys, (select count(*) from licenses) as licenses,
               (select count(*) from accounts) as accounts`,
    );
    expect(rows).toEqual({ keys: ORDERS, licenses: ORDERS, accounts: 40 });
    for (const line of delivered) {
      const [externalId, apiKey = ""] = line.split(",");
      const found = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
      expect(found).toMatchObject({ externalId, tier: "free", mode: "live", state: "active" });
    }
  });
});
