/** Accounts and models over the API. `same_changes_test.ts` compares their changes with those of the commands. */

import { describe, expect, test } from "bun:test";
import { newUuid, parseId, toId } from "../../src/base/ids.ts";
import { revokeKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";

const admin = useAdmin();
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));

const answer = async (method: string, path: string, body?: unknown) => {
  const { status, body: answered } = await admin.call(method, path, { body });
  return { status, body: answered };
};

/** The newest rows of the audit log, without what differs between two changes. */
async function newestRows(count: number): Promise<object[]> {
  const rows = await commands.json(["audit", "--limit", String(count)]);
  return rows.map(
    ({ id, at, actor, door, request, address, user_id, ...row }: Record<string, unknown>) => row,
  );
}

describe("GET /accounts/{id}/usage", () => {
  test("shows twelve months as `accounts usage` does, which prints a row for each", async () => {
    const { userId, licenseUuid } = await admin.issue();
    await admin.database.query(
      (sql) =>
        sql`insert into usage (license_id, month, used) values (${licenseUuid}::uuid, '2026-02-01', 1234)`,
    );
    const { status, body } = await answer("GET", `/accounts/${userId}/usage?month=2026-03`);
    expect(status).toBe(200);
    expect(body.months).toHaveLength(12);
    expect(body.months.slice(-2)).toEqual([
      { month: "2026-02", used: 1234, over: 0 },
      { month: "2026-03", used: 0, over: 0 },
    ]);
    const args = ["accounts", "usage", userId, "--month", "2026-03"];
    expect(await commands.json(args)).toEqual(body);
    const { out } = await commands.run(args);
    expect(out.split("\n").filter((line) => line.startsWith("202"))).toHaveLength(12);
    expect(out).toContain("2026-02  1234");
    const unknown = await commands.run(["accounts", "usage", "nobody@example.org"]);
    expect(unknown).toMatchObject({ status: 1, out: "" });
    expect(unknown.err).toContain("Cannot show usage: no account has the id or e-mail nobody@example.org");
  });
});

describe("PATCH /accounts/{id}", () => {
  test("says that nothing changed, writes no row then, and stores the reason otherwise", async () => {
    const { userId } = await admin.issue({ name: "Ada" });
    const path = `/accounts/${userId}`;
    // The first request issues the token, which is a row of its own.
    await answer("GET", path);
    const before = await newestRows(1);
    expect((await answer("PATCH", path, { name: "Ada", reason: "x" })).body).toMatchObject({
      changed: false,
    });
    expect(await newestRows(1)).toEqual(before);
    const renamed = { organization: "", name: "Lovelace", reason: "as she asked" };
    expect((await answer("PATCH", path, renamed)).body).toMatchObject({ changed: true, name: "Lovelace" });
    expect(await newestRows(1)).toMatchObject([{ reason: "as she asked", after: { changed: ["name"] } }]);
    expect((await answer("GET", path)).body).toMatchObject({ id: userId, name: "Lovelace", keys: 1 });
  });
});

describe("POST /accounts/{id}/renew", () => {
  test("adds a year to every license, and forgets their keys", async () => {
    const expiresAt = new Date("2027-03-01T00:00:00Z");
    const [one, two] = [{ email: "renew@example.org", expiresAt }, { email: "renew@example.org" }];
    const [key] = [await admin.issue(one), await admin.issue(two)];
    const path = `/accounts/${key.userId}/renew`;
    const id = toId("lic", key.licenseUuid);
    const before = { expires_at: "2027-03-01T00:00:00Z" };
    const licenses = [{ id, before, expires_at: "2028-03-01T00:00:00Z" }];
    expect(await answer("POST", path, { reason: "paid" })).toEqual({
      status: 200,
      body: { id: key.userId, licenses },
    });
    expect(admin.forgotten.at(-1)).toBe(key.licenseUuid);
    const logged = [{ action: "license.renew", license_id: id, reason: "paid" }];
    expect(await newestRows(1)).toMatchObject(logged);
    // Again, because the answer was lost; then by the command.
    const again = { id: key.userId, licenses: [] };
    expect(await answer("POST", path, { reason: "again" })).toEqual({ status: 200, body: again });
    expect(await commands.json(["accounts", "renew", key.userId])).toEqual(again);
    expect(await newestRows(1)).toMatchObject(logged);
  });
});

describe("POST /accounts/{id}/erase", () => {
  test("revokes the keys with revoke_keys, for a token with both scopes", async () => {
    const { userId } = await admin.issue();
    const path = `/accounts/${userId}/erase`;
    const body = { revoke_keys: true, reason: "request of 4 March" };
    const narrow = await admin.token({ scopes: ["accounts:erase"] });
    const refused = await admin.call("POST", path, { body, token: narrow });
    expect([refused.status, refused.body.code]).toEqual([403, "NOT_ALLOWED"]);
    expect((await answer("GET", `/accounts/${userId}`)).body).toMatchObject({ erasure: null });
    const wide = await admin.token({ scopes: ["accounts:erase", "keys:revoke"] });
    expect((await admin.call("POST", path, { body, token: wide })).body).toEqual({
      id: userId,
      erased: true,
      changed: true,
      keys_revoked: 1,
    });
    expect((await answer("GET", `/accounts/${userId}`)).body.erasure).toEqual({
      began_at: expect.any(String),
      is_complete: true,
      erased_at: expect.any(String),
      events_erased_at: null,
    });
    const { reason } = body;
    expect(await newestRows(2)).toMatchObject([
      { action: "account.erase", reason },
      { action: "key.revoke", reason },
    ]);
  });

  test("refuses an account with a key in use, then erases it once", async () => {
    const email = "to-be-erased@example.org";
    const { id, userId } = await admin.issue({ email });
    const path = `/accounts/${userId}/erase`;
    const inUse = await answer("POST", path, {});
    expect({ status: inUse.status, code: inUse.body.code, error: inUse.body.error }).toEqual({
      status: 409,
      code: "CONFLICT",
      error: "Cannot erase account: a key of it is not revoked; revoke its keys first",
    });
    const by = { actor: ACTOR, now: admin.clock.now() };
    const uuid = parseId("key", id) ?? "";
    orThrow(await revokeKey(createLicenseChanges(admin.database), { uuid }, by));
    const reason = "request of 3 March";
    expect((await answer("POST", path, { reason })).body).toEqual({
      id: userId,
      erased: true,
      changed: true,
      keys_revoked: 0,
    });
    expect(await newestRows(1)).toMatchObject([{ action: "account.erase", reason }]);
    expect((await answer("POST", path, {})).body).toEqual({
      id: userId,
      erased: true,
      changed: false,
      keys_revoked: 0,
    });
    expect((await answer("GET", `/accounts/${userId}`)).body).toMatchObject({ name: "erased" });
    const [left] = await admin.database.query<{ rows: number }>(
      (sql) => sql`select count(*) as rows from accounts where to_jsonb(accounts)::text like ${`%${email}%`}`,
    );
    expect(left?.rows).toBe(0);
  });
});

const FIELDS = {
  version: "1.0.0",
  type: "SvcLDA",
  paradigm: "p300",
  n_features: 8,
  n_classes: 2,
  size_mb: 1.5,
  url: "https://models.example.org/m",
  checksum: `sha256:${"ab".repeat(32)}`,
  requires_license: "free",
};

describe("models", () => {
  const add = (name: string, fields: object = {}) =>
    answer("POST", "/models", { name, ...FIELDS, ...fields });

  test("are shown as `models show` does, and a version is retired with its reason", async () => {
    await add("api-1");
    await answer("POST", "/models/api-1/1.0.0/retire", { reason: "wrong file" });
    const shown = await answer("GET", "/models/api-1");
    expect(shown).toMatchObject({
      status: 200,
      body: { listed_version: null, owner: null, versions: [{ version: "1.0.0", hosted: false }] },
    });
    expect(await commands.json(["models", "show", "api-1"])).toEqual(shown.body);
    expect(await newestRows(1)).toMatchObject([{ action: "model.retire", reason: "wrong file" }]);
    const unknown = await commands.run(["models", "show", "api-9"]);
    expect(unknown).toMatchObject({ status: 1, out: "" });
    expect(unknown.err).toContain("Cannot show model: no model is named api-9");
  });

  test("accepts the checksum also without sha256:, metadata, and an owner", async () => {
    const { userId } = await admin.issue();
    const fields = {
      checksum: "cd".repeat(32),
      metadata: { a: [1, { b: null }] },
      owner: userId,
      requires_license: "commercial",
    };
    expect((await add("owned", fields)).status).toBe(201);
    const { data } = (await answer("GET", "/models")).body;
    expect(data.find(({ name }: { name: string }) => name === "owned")).toMatchObject({
      owner: userId,
      checksum: `sha256:${"cd".repeat(32)}`,
      download_url: FIELDS.url,
      metadata: { a: [1, { b: null }] },
    });
  });

  test("are refused with an owner who does not exist", async () => {
    const { status, body } = await add("wrong", { owner: toId("usr", newUuid()) });
    expect({ status, field: body.details?.[0]?.field }).toEqual({ status: 400, field: "requires_license" });
  });
});
