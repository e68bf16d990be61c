/** POST /admin/v1/keys: the key, the restriction of the token, and the answer to a repeated request. */
import { beforeAll, describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { findKey, hashApiKey, keyPattern } from "../../src/licensing/keys/mod.ts";
import { changeLicense, createLicenseChanges, oneYearAfter } from "../../src/licensing/mod.ts";
import { renewToken } from "../../src/operators/mod.ts";
import { ACTOR, BRAND, countRows } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";

const admin = useAdmin();

beforeAll(async () => {
  // The first call issues the token that every call sends.
  await admin.call("GET", "/whoami");
});

let orders = 0;
const newOrder = () => `order-${String(++orders).padStart(12, "0")}`;

function issue(body: object, { token, order = newOrder() }: { token?: string; order?: string } = {}) {
  return admin.call("POST", "/keys", {
    body,
    headers: { "Idempotency-Key": order },
    ...(token && { token }),
  });
}

const LICENSE = { email: "grace@example.org", tier: "research" } as const;

describe("POST /admin/v1/keys", () => {
  test("issues a key with every field", async () => {
    const { status, body } = await issue({
      email: "Ada@Example.org",
      tier: "commercial",
      name: "Ada",
      organization: "Engines",
      mode: "test",
      expires_at: "2027-06-01T02:00:00+02:00",
      monthly_limit: 9,
      max_machines: 30,
      seat_minutes: 15,
      external_id: "order № 1",
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.stringMatching(/^key_/),
      api_key: expect.stringMatching(keyPattern(BRAND)),
      user_id: expect.stringMatching(/^usr_/),
      license_id: expect.stringMatching(/^lic_/),
      email: "ada@example.org",
      tier: "commercial",
      mode: "test",
      expires_at: "2027-06-01T00:00:00Z",
      external_id: "order № 1",
    });
    const now = admin.clock.now();
    expect(await findKey(admin.database, { hash: hashApiKey(body.api_key) }, { now })).toMatchObject({
      id: body.id,
      licenseId: body.license_id,
      userId: body.user_id,
      externalId: "order № 1",
      name: "Ada",
      organization: "Engines",
      tier: "commercial",
      mode: "test",
      monthlyLimit: 9,
      maxMachines: 30,
      seatMinutes: 15,
    });
  });

  test("issues a license that starts on its first use, and refuses it with an expiry", async () => {
    const term = { starts_on_first_use: true, term_days: 30, latest_start: "2030-01-31" };
    const refused = await issue({ ...LICENSE, ...term, expires_at: "2030-01-31" });
    expect(refused.body).toMatchObject({ code: "INVALID_REQUEST", details: [{ field: "expires_at" }] });
    const { status, body } = await issue({ ...LICENSE, ...term, max_offline_days: 14, shows_machines: true });
    expect([status, body.expires_at]).toEqual([201, "2030-03-02T23:59:59Z"]);
    expect((await admin.call("GET", `/keys/${body.id}`)).body).toMatchObject({
      ...{ starts_on_first_use: true, term_days: 30, latest_start: "2030-01-31T23:59:59Z", started_at: null },
      ...{ max_offline_days: 14, shows_machines: true, self_releases: null },
    });
  });

  test("sets the defaults of the command, and takes null as absent", async () => {
    const nulls = {
      name: null,
      organization: null,
      expires_at: null,
      monthly_limit: null,
      max_machines: null,
      seat_minutes: null,
      external_id: null,
    };
    for (const body of [LICENSE, { ...LICENSE, ...nulls }]) {
      const { status, body: issued } = await issue(body);
      expect({ status, ...issued }).toMatchObject({ status: 201, mode: "live", external_id: null });
      const inAYear = oneYearAfter(admin.clock.now()).getTime();
      expect(new Date(issued.expires_at).getTime()).toBeWithin(inAYear - 60_000, inAYear + 1);
    }
    expect((await issue({ ...LICENSE, expires_at: "never" })).body.expires_at).toBe("9999-12-31T23:59:59Z");
  });

  test("does not repeat a field name that is a key", async () => {
    const key = `svc_live_${"5".repeat(48)}`;
    const { status, body } = await issue({ ...LICENSE, [key]: 1 });
    expect({ status, leaks: JSON.stringify(body).includes("5555") }).toEqual({ status: 400, leaks: false });
  });

  test("refuses an expiry in the past, seat minutes alone, and another name for a known account", async () => {
    expect((await issue({ ...LICENSE, expires_at: "2020-01-01" })).body).toMatchObject({
      code: "INVALID_REQUEST",
      error: "Cannot issue key: the expiry lies in the past",
      details: [{ field: "expires_at", error: "the expiry lies in the past" }],
    });
    expect((await issue({ ...LICENSE, seat_minutes: 15 })).body).toMatchObject({
      code: "INVALID_REQUEST",
      error: "Cannot issue key: seat minutes need a machine limit, so give both",
      details: [{ field: "seat_minutes" }],
    });
    expect((await issue(LICENSE)).status).toBe(201);
    const { status, body } = await issue({ ...LICENSE, name: "Somebody Else" });
    expect({ status, ...body }).toEqual({
      status: 409,
      code: "CONFLICT",
      error:
        "Cannot issue key: the account grace@example.org has another name or organization; leave them out, or " +
        "change the account first",
    });
  });

  test("stores hostile names as they are", async () => {
    const name = "Robert'); drop table keys;-- <img src=x onerror=alert(1)> \\ $1 %s {{7*7}} \u202e";
    const organization = '=HYPERLINK("http://evil.example")';
    const external_id = `'"<>&;\\%00../..`;
    const { status, body } = await issue({
      email: "robert@example.org",
      tier: "free",
      name,
      organization,
      external_id,
    });
    expect(status).toBe(201);
    const { body: key } = await admin.call("GET", `/keys/${body.id}`);
    expect(key).toMatchObject({ name, organization, external_id });
    const { body: page } = await admin.call("GET", `/keys?external_id=${encodeURIComponent(external_id)}`);
    expect(page.data).toEqual([key]);
  });

  test("names the license that has the external id, if the token may read licenses", async () => {
    const body = { ...LICENSE, external_id: "taken-1" };
    const first = (await issue(body)).body;
    const taken = { error: "Cannot issue key: another license has this external id", code: "ALREADY_EXISTS" };
    expect(await issue(body)).toMatchObject({ status: 409, body: { ...taken, id: first.license_id } });
    const token = await admin.token({ scopes: ["keys:issue"] });
    const hidden = await issue(body, { token });
    expect({ status: hidden.status, body: hidden.body }).toEqual({ status: 409, body: taken });
  });
});

describe("POST /admin/v1/keys with an Idempotency-Key", () => {
  test("is refused without the header, and with one that is short, long or not printable ASCII", async () => {
    for (const headers of [
      {},
      ...["x".repeat(15), "x".repeat(256), "with a blank here", "ü".repeat(20)].map((key) => ({
        "Idempotency-Key": key,
      })),
    ]) {
      const { status, body } = await admin.call("POST", "/keys", { body: LICENSE, headers });
      expect({ status, code: body.code }).toEqual({ status: 400, code: "INVALID_REQUEST" });
      expect(body.error).toContain("must be 16 to 255 printable ASCII characters");
    }
  });

  test("gives 24 simultaneous requests one key and equal answers, also with an external id", async () => {
    for (const more of [{}, { external_id: "at-once-1" }]) {
      const [order, before] = [newOrder(), await countRows(admin.database)];
      const body = { ...LICENSE, email: `${order}@example.org`, ...more };
      const answers = await Promise.all(Array.from({ length: 24 }, () => issue(body, { order })));
      expect(new Set(answers.map(({ status, body }) => JSON.stringify([status, body]))).size).toBe(1);
      expect(answers[0]?.status).toBe(201);
      const { keys = 0, licenses = 0, audit = 0 } = before;
      expect(await countRows(admin.database)).toMatchObject({
        keys: keys + 1,
        licenses: licenses + 1,
        audit: audit + 1,
      });
    }
  });

  test("gives the same answer to the renewed token, and to another integration a key of its own", async () => {
    const order = newOrder();
    const token = await admin.token({ name: "renewed-shop", scopes: ["keys:issue"] });
    const first = await issue(LICENSE, { token, order });
    admin.clock.advance(60_000);
    const by = { brand: BRAND, actor: ACTOR, now: admin.clock.now() };
    const renewed = await renewToken(admin.database, { name: "renewed-shop" }, by);
    if (isRefusal(renewed)) throw new Error(renewed.sentence);
    expect((await issue(LICENSE, { token, order })).status).toBe(401);
    const again = await issue(LICENSE, { token: renewed.token, order });
    expect([again.status, again.body]).toEqual([201, first.body]);
    const other = await issue(LICENSE, { order, token: await admin.token() });
    expect(other.status).toBe(201);
    expect(other.body.api_key).not.toBe(first.body.api_key);
  });

  test("gives the same answer although the expiry has passed meanwhile, and after 24 hours another key", async () => {
    const order = newOrder();
    const soon = new Date(admin.clock.now().getTime() + 60_000).toISOString();
    const body = { ...LICENSE, expires_at: soon };
    const first = await issue(body, { order });
    expect(first.status).toBe(201);
    admin.clock.advance(23 * 3_600_000);
    expect((await issue(body, { order })).body).toEqual(first.body);
    const year = { order: newOrder() };
    const kept = await issue(LICENSE, year);
    admin.clock.advance(24 * 3_600_000);
    expect((await issue(body, { order })).body.code).toBe("INVALID_REQUEST");
    const later = await issue(LICENSE, year);
    expect(later.status).toBe(201);
    expect(later.body.id).not.toBe(kept.body.id);
  });

  test("is not answered any more if the token could not issue the key now", async () => {
    const name = "narrowed-shop";
    const token = await admin.token({ name, scopes: ["keys:issue", "keys:read"] });
    const order = newOrder();
    const first = await issue(LICENSE, { token, order });
    const narrow = (columns: string) =>
      admin.database.query((sql) => sql`update tokens set ${sql.unsafe(columns)} where name = ${name}`);
    await narrow("tiers = array['free']");
    expect(await issue(LICENSE, { token, order })).toMatchObject({
      status: 403,
      body: { code: "NOT_ALLOWED" },
    });
    await narrow("tiers = null, scopes = array['keys:read']");
    expect(await issue(LICENSE, { token, order })).toMatchObject({
      status: 403,
      body: { code: "SCOPE_REQUIRED" },
    });
    await narrow("tiers = array['research'], scopes = array['keys:issue']");
    expect((await issue(LICENSE, { token, order })).body).toEqual(first.body);
    const license = { licenseUuid: parseId("lic", first.body.license_id) ?? "" };
    const change = { change: { tier: "enterprise" }, actor: ACTOR, now: admin.clock.now() } as const;
    await changeLicense(createLicenseChanges(admin.database), license, change);
    expect(await issue(LICENSE, { token, order })).toMatchObject({
      status: 403,
      body: { code: "NOT_ALLOWED" },
    });
  });
});
