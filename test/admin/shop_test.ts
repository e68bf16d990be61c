/** The shop of the manual: a script that issues keys with a token that can do nothing else, while both are killed. */
import { beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { findKey, hashApiKey } from "../../src/licensing/keys/mod.ts";
import { PRESETS, toRestriction } from "../../src/operators/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { createTestDatabase } from "../support/database.ts";
import { openShop } from "../support/shop.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";

let afterStatement = () => {};
beforeEach(() => {
  afterStatement = () => {};
});

// Each test has a database of its own: one test counts all rows, and another one moves the clock.
const on = useForEach(createTestDatabase);
const admin = useForEach(() => {
  const { database } = on;
  return startAdmin({
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
setDefaultTimeout(60_000);

describe("the shop's script", () => {
  const openFreeShop = async (orders?: readonly string[]) =>
    openShop({
      url: admin.url,
      ...(orders && { orders }),
      // Some buyers have several orders: the shop has verified their e-mails.
      token: await admin.token({
        scopes: ["keys:issue", "accounts:join"],
        restriction: { tiers: ["free"], mode: "live" },
      }),
    });

  test("issues exactly one key for each of 100 orders, although it is killed and started again at random", async () => {
    const shop = await openFreeShop();
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
    afterStatement = () => {};
    const delivered = shop.delivered();
    const sent = shop.sent();
    shop.close();
    expect(new Set(sent.map(([, once]) => once)).size).toBe(100);
    for (const [, once] of sent) expect(once).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f-]{21}$/);
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

  test("writes a refused order to a file, goes on with the next one, and takes the corrected order later", async () => {
    await admin.issue({ email: "first@example.org", externalId: "taken" });
    const shop = await openFreeShop(["first", "second"]);
    const bad = [
      "wrong,not-an-address",
      "short",
      "taken,ada@example.org",
      `${"9".repeat(300)},ada@example.org`,
    ];
    // The last row of two files was not written to its end, by a power failure for example.
    shop.append("sent.csv", "first,5f0c");
    shop.append("keys.csv", "first,svc_li");
    shop.append("orders.csv", `${bad.join("\n")}\nlate,ada@example.org\n`);
    expect(await shop.start().exited).toBe(0);
    const refused = shop.refused();
    expect(refused.map(([order]) => order)).toEqual(bad.map((line) => line.split(",")[0]));
    expect(refused.map(([, reason = ""]) => /code"":""(\w+)/.exec(reason)?.[1])).toEqual([
      ...["INVALID_REQUEST", "INVALID_REQUEST", "ALREADY_EXISTS", "INVALID_REQUEST"],
    ]);
    const keys = shop.delivered();
    expect(keys.map(([order]) => order)).toEqual([...shop.orders, "late"]);
    expect(keys[0]?.[1]).toMatch(/^svc_live_[0-9a-f]{48}$/);
    shop.append("orders.csv", "later,ada@example.org");
    expect(await shop.start().exited).toBe(0);
    expect(shop.refused()).toEqual(refused);
    expect(shop.delivered()).toEqual([...keys, ["later", expect.any(String)]]);
    shop.close();
  });

  test("refuses an order whose answer was lost a day ago; its key is found by external_id and rotated", async () => {
    const shop = await openFreeShop(["lost"]);
    expect(await shop.start().exited).toBe(0);
    const [[, lost = ""] = []] = shop.delivered();
    shop.forget("keys.csv");
    admin.clock.advance(25 * 3_600_000);
    expect(await shop.start().exited).toBe(0);
    expect(shop.refused()).toEqual([["lost", expect.stringContaining("ALREADY_EXISTS")]]);
    shop.close();
    const token = await admin.token({
      scopes: ["keys:read", "keys:manage"],
      restriction: { tiers: ["free"], mode: "live" },
    });
    const { body } = await admin.call("GET", "/keys?external_id=lost", { token });
    const { status, body: rotated } = await admin.call("POST", `/keys/${body.data[0].id}/rotate`, {
      token,
      headers: { "Idempotency-Key": crypto.randomUUID() },
      body: { overlap: "0h" },
    });
    expect(status).toBe(201);
    const stateOf = async (apiKey: string) =>
      (await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() }))?.state;
    expect([await stateOf(lost), await stateOf(rotated.api_key)]).toEqual(["expired", "active"]);
  });

  test("with the preset's scopes serves a returning customer: finds, renews and upgrades the license, and adds one", async () => {
    const expiresAt = new Date(admin.clock.nowMs() + 86_400_000);
    const bought = await admin.issue({ email: "ada@example.org", externalId: "order-1", expiresAt });
    const token = await admin.token({
      scopes: PRESETS.shop.scopes,
      restriction: toRestriction({ scopes: PRESETS.shop.scopes, tiers: ["free", "research"], mode: "live" }),
    });

    const { body: found } = await admin.call("GET", "/keys?external_id=order-1", { token });
    const { license_id, user_id } = found.data[0];

    const patch = (body: object) => admin.call("PATCH", `/licenses/${license_id}`, { token, body });
    const upgraded = await patch({ tier: "research" });
    const later = new Date(expiresAt.getTime() + 86_400_000).toISOString();
    const renewed = await patch({ expires_at: later });
    const second = await admin.call("POST", "/keys", {
      token,
      headers: { "Idempotency-Key": crypto.randomUUID() },
      body: { email: "ada@example.org", tier: "free", external_id: "order-2" },
    });
    const revoked = await admin.call("POST", `/keys/${bought.id}/revoke`, { token, body: {} });

    expect([upgraded.status, upgraded.body.tier, renewed.status]).toEqual([200, "research", 200]);
    expect([second.status, second.body.user_id]).toEqual([201, user_id]);
    expect([revoked.status, revoked.body.code]).toEqual([403, "SCOPE_REQUIRED"]);
  });

  test("ends if another copy is running, and if the token is wrong, and refuses no order then", async () => {
    const shop = openShop({ url: admin.url, token: `svc_op_${"0".repeat(48)}` });
    const wrong = shop.start();
    expect(await new Response(wrong.stderr).text()).toStartWith("The token or the address is wrong: 401");
    expect([await wrong.exited, shop.refused()]).toEqual([1, []]);
    shop.close();
    const busy = await openFreeShop(Array.from({ length: 30 }, (_, index) => `busy-${index}`));
    const first = busy.start();
    await until(() => busy.delivered().length > 0);
    first.kill("SIGSTOP");
    const second = busy.start();
    expect(await new Response(second.stderr).text()).toBe("Another copy of this script is running\n");
    expect(await second.exited).toBe(1);
    first.kill("SIGCONT");
    expect(await first.exited).toBe(0);
    expect(busy.delivered().map(([order]) => order)).toEqual([...busy.orders]);
    busy.close();
  });
});
