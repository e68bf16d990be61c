/** The page of the tiers: what each gives its licenses, and how its values are changed for all of them. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { type Entitlements, listTiers, type Tier } from "../../src/licensing/mod.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, mainOf, textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
const FIVE_MINUTES_MS = 300_000;
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("editor", "emil"));
});
beforeEach(async () => {
  await admin.database.query((sql) => sql`update tiers set entitlements = '{}'`);
});

async function valuesOf(tier: Tier): Promise<Entitlements | undefined> {
  const tiers = await listTiers(admin.database, { now: admin.clock.now() });
  return tiers.find((each) => each.tier === tier)?.entitlements;
}

const countRows = async () =>
  (await listAudit(admin.database, { action: "tier.values", limit: 1_000 })).length;

/** Sends the form, and returns what the answer says and the fields of its own form. */
async function send(form: Record<string, string>, as = cookie) {
  const { status, text } = await client.submit("/tiers/values", { cookie: as, form });
  const names = attributesOf(text, "main input[type=hidden]", "name");
  const values = attributesOf(text, "main input[type=hidden]", "value");
  const next = Object.fromEntries(names.map((name, index) => [name, values[index] ?? ""]));
  return { status, text, main: mainOf(text), notice: textsOf(text, ".notice")[0], next };
}

describe("The page of the tiers", () => {
  test("shows each tier with its limit, its features, its values and its licenses, and is in the menu", async () => {
    const row = async () => {
      const { text } = await client.send("/tiers", { cookie });
      return textsOf(text, "tbody tr").find((each) => each.startsWith("research "));
    };
    const [tier] = (await listTiers(admin.database, { now: admin.clock.now() })).filter(
      (t) => t.tier === "research",
    );
    await admin.issue({ tier: "research" });
    await admin.issue({ tier: "research", expiresAt: new Date(admin.clock.nowMs() + 1_000) });
    admin.clock.advance(2_000);
    await admin.database.query(
      (sql) =>
        sql`update tiers set entitlements = '{"region": "eu", "channels": 32}' where tier = 'research'`,
    );
    expect(await row()).toBe(
      `research 50,000 batch_inference, streaming, training, calibration, model_export channels=32, region=eu ${(tier?.licenses ?? 0) + 1}`,
    );
    const { text } = await client.send("/tiers", { cookie });
    expect(textsOf(text, "tbody th").slice(0, 4)).toEqual(["free", "research", "commercial", "enterprise"]);
    expect(textsOf(text, "nav[aria-label=Menu] a[aria-current=page]")).toEqual(["Tiers"]);
  });

  test("shows a viewer no form", async () => {
    const viewer = (await client.logIn("viewer")).cookie;
    const { status, text } = await client.send("/tiers", { cookie: viewer });
    expect([status, textsOf(text, ".action")]).toEqual([200, []]);
  });
});

describe("Change values of a tier", () => {
  const FORM = { tier: "commercial", entitlements: "channels=64, region=", reason: "as planned" };

  test("shows before the change what changes and for how many licenses, and then changes it", async () => {
    await admin.database.query(
      (sql) => sql`
        update tiers set entitlements = '{"region": "eu", "channels": 128, "seats": 5}' where tier = 'commercial'`,
    );
    for (const ownEntitlements of [{}, { channels: 1 }, { channels: 1, region: "us" }])
      await admin.issue({ tier: "commercial", ownEntitlements });
    const [before, forgotten] = [await countRows(), admin.forgotten.length];

    const shown = await send(FORM);

    expect([shown.status, textsOf(shown.text, "h1")]).toEqual([
      200,
      ["Values of commercial: what will change"],
    ]);
    // One license has both values itself.
    expect(shown.main).toContain("Nothing is changed yet. 2 licenses of commercial will have other values");
    expect(textsOf(shown.text, "tbody tr")).toEqual([
      "value channels 128 → 64 lower value",
      'value region "eu" → none value removed',
    ]);
    expect(await valuesOf("commercial")).toEqual({ channels: 128, region: "eu", seats: 5 });
    expect([await countRows(), admin.forgotten.length]).toEqual([before, forgotten]);

    const done = await send(shown.next);

    expect(done.status).toBe(303);
    expect(done.notice).toBe(
      "value channels: 128 → 64; value region: eu → none. Every license of commercial has these values within a second, but for those that it has itself.",
    );
    expect(await valuesOf("commercial")).toEqual({ channels: 64, seats: 5 });
    expect(admin.forgotten.slice(forgotten)).toEqual(["all"]);
    const [row] = await listAudit(admin.database, { action: "tier.values", limit: 1 });
    expect(row).toMatchObject({ actor: "operator:emil", reason: "as planned" });
    expect(textsOf(done.text, "section[aria-labelledby=history] tbody tr")[0]).toMatch(
      /changed the values of a tier .*tier: commercial/,
    );
  });

  test("is refused if the tier was changed after it was shown, and changes nothing", async () => {
    const shown = await send(FORM);
    await send((await send({ tier: "commercial", entitlements: "seats=9" })).next);
    const before = await countRows();

    const refused = await send(shown.next);

    expect(refused.status).toBe(409);
    expect(refused.notice).toBe(
      "Cannot change values of tier: it was changed after these values were shown; look at it again.",
    );
    expect(attributesOf(refused.text, "#values-entitlements", "value")).toEqual([FORM.entitlements]);
    expect(await valuesOf("commercial")).toEqual({ seats: 9 });
    expect(await countRows()).toBe(before);
  });

  test("makes no second change if its form is sent twice", async () => {
    const shown = await send(FORM);
    await send(shown.next);
    const before = await countRows();
    expect((await send(shown.next)).status).toBe(409);
    expect(await countRows()).toBe(before);
  });

  test("says so if the tier has these values already", async () => {
    const before = await countRows();
    const { main } = await send({ tier: "free", entitlements: "channels=" });
    expect(main).toContain("Nothing changed: the values were the same already.");
    expect(await countRows()).toBe(before);
  });

  test.each([
    [{ tier: "gold" }, "It must be one of free"],
    [{ entitlements: "" }, "It must be values separated by commas"],
    [{ entitlements: "channels" }, "It must be values separated by commas"],
    [{ seen: "channels" }, undefined],
  ])("refuses %j, and changes nothing", async (wrong, error) => {
    const { status, text } = await send({ ...FORM, ...wrong });
    expect([status, textsOf(text, ".error")]).toEqual([
      400,
      error === undefined ? [] : [expect.stringContaining(error)],
    ]);
    expect(await valuesOf("commercial")).toEqual({});
  });

  test("refuses more values than a tier can have", async () => {
    const all = Array.from({ length: 32 }, (_, n) => `v${n}=${n}`).join(", ");
    await send((await send({ tier: "free", entitlements: all })).next);
    const refused = await send({ tier: "free", entitlements: "one_more=1" });
    expect([refused.status, ...textsOf(refused.text, ".error")]).toEqual([
      400,
      expect.stringContaining("a tier has at most 32 values"),
    ]);
    expect(Object.keys((await valuesOf("free")) ?? {})).toHaveLength(32);
  });

  test("for more than ten licenses needs a login of the last five minutes, before it is shown and again before it is made", async () => {
    const entitlements = "channels=64";
    const editor = (await client.logIn("editor")).cookie;
    for (let n = 0; n < 10; n++) await admin.issue({ tier: "enterprise" });
    const few = await send({ tier: "enterprise", entitlements }, editor);
    expect(few.main).toContain("10 licenses of enterprise");
    admin.clock.advance(FIVE_MINUTES_MS + 1);
    expect((await send({ tier: "enterprise", entitlements }, editor)).status).toBe(200);
    await admin.issue({ tier: "enterprise" });
    const before = await countRows();

    for (const form of [{ tier: "enterprise", entitlements }, few.next]) {
      const { status, notice } = await send(form, editor);
      expect([status, notice]).toEqual([
        403,
        expect.stringContaining(
          "Only an operator who logged in within the last five minutes may change the values of more than 10 licenses",
        ),
      ]);
    }
    expect(await valuesOf("enterprise")).toEqual({});
    expect(await countRows()).toBe(before);
    const again = (await client.logIn("editor")).cookie;
    expect((await send((await send({ tier: "enterprise", entitlements }, again)).next, again)).status).toBe(
      303,
    );
    expect(await valuesOf("enterprise")).toEqual({ channels: 64 });
  });
});
