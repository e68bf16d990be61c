/** The shop of the manual: a script that issues keys with a token that can do nothing else, while both are killed. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { findKey, hashApiKey } from "../../src/keys/mod.ts";
import { startAdmin, type TestAdmin } from "../support/admin.ts";
import { createTestDatabase } from "../support/database.ts";
import { openShop } from "../support/shop.ts";

setDefaultTimeout(60_000);

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
});

describe("the shop's script", () => {
  test("issues exactly one key for each of 100 orders, although it is killed and started again at random", async () => {
    const token = await admin.token({
      scopes: ["keys:issue"],
      restriction: { tiers: ["free"], mode: "live" },
    });
    const shop = openShop({ url: admin.url, token });
    let kills = 0;
    for (;;) {
      const script = shop.start();
      // At any moment between two statements of a request, also between the commit and the answer.
      let statements = Math.ceil(Math.random() * 80);
      afterStatement = () => {
        if (--statements === 0) script.kill("SIGKILL");
      };
      await script.exited;
      if (script.signalCode === null) {
        expect(script.exitCode).toBe(0);
        break;
      }
      kills++;
    }
    // An order needs three statements, so there are at least four starts.
    expect(kills).toBeGreaterThanOrEqual(3);
    const delivered = shop.delivered();
    shop.close();
    expect(delivered.map(([order]) => order)).toEqual([...shop.orders]);
    const [rows] = await admin.database.query<{ keys: number; licenses: number; accounts: number }>(
      (sql) => sql`
        select (select count(*) from keys) as keys, (select count(*) from licenses) as licenses,
               (select count(*) from accounts) as accounts`,
    );
    expect(rows).toEqual({ keys: 100, licenses: 100, accounts: 40 });
    for (const [externalId, apiKey = ""] of delivered) {
      const found = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
      expect(found).toMatchObject({ externalId, tier: "free", mode: "live", state: "active" });
    }
  });
});
