/** The routes below /admin/v1/keys that read and change an issued key. */

import { describe, expect, test } from "bun:test";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { generateApiKey, type IssuedKey } from "../../src/licensing/keys/mod.ts";
import type { CallOptions } from "../support/admin.ts";
import { BRAND, countRows } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import { issueRevoked, issueSuspended, newIdempotencyKey } from "./sample_requests.ts";

const admin = useAdmin();

function change(key: { readonly id: string }, verb: string, options: CallOptions = {}) {
  const headers = { ...(verb === "rotate" && newIdempotencyKey()), ...options.headers };
  return admin.call("POST", `/keys/${key.id}/${verb}`, { ...options, headers });
}

async function auditOf(key: { readonly id: string }) {
  const rows = await admin.database.query<Record<string, string>>(
    (sql) => sql`
      select action, actor, door, reason, request, address from audit
       where key_id = ${key.id.slice(4)}::uuid order by id desc`,
  );
  return [...rows];
}

describe("GET /admin/v1/keys/{id} and POST /admin/v1/keys/find", () => {
  test("show the data of the key without its text", async () => {
    const key = await admin.issue({ externalId: "shown-1", tier: "enterprise", expiresAt: NEVER_EXPIRES });
    const shown = await admin.call("GET", `/keys/${key.id}`);
    expect([shown.status, shown.body]).toMatchObject([
      200,
      {
        id: key.id,
        external_id: "shown-1",
        state: "active",
        monthly_limit: null,
        used: 0,
        last_used_at: null,
      },
    ]);
    expect(JSON.stringify(shown.body)).not.toContain(key.apiKey);
    const found = await admin.call("POST", "/keys/find", { body: { api_key: key.apiKey } });
    expect(found.body).toEqual(shown.body);
  });

  test("refuse an unknown key with 404 when it is found, and a text that is no key without repeating it", async () => {
    const find = (api_key: unknown) => admin.call("POST", "/keys/find", { body: { api_key } });
    const unknown = await find(generateApiKey(BRAND, "live").apiKey);
    expect([unknown.status, unknown.body]).toEqual([
      404,
      { error: "Cannot find key: it was never issued or imported here", code: "KEY_NOT_FOUND" },
    ]);
    const text = "secret-but-wrong";
    for (const wrong of [text, `${text} svc_live_`, 7, null, "x".repeat(5_000)]) {
      const { status, body } = await find(wrong);
      expect({ status, ...body }).toMatchObject({ status: 400, details: [{ field: "api_key" }] });
      expect(JSON.stringify(body)).not.toContain(text);
    }
  });
});

describe("GET /admin/v1/keys/{id}/why and /usage", () => {
  test("explain as the command does", async () => {
    const key = await admin.issue();
    await change(key, "suspend", { body: { reason: "invoice open" } });
    const { body } = await admin.call("GET", `/keys/${key.id}/why`);
    expect(body).toMatchObject({
      ...{
        id: key.id,
        state: "suspended",
        obstacles: ["suspended"],
        limits: { validate: 100, models: null },
      },
      change: {
        action: "key.suspend",
        actor: expect.stringMatching(/^token:token-/),
        reason: "invoice open",
      },
      quota: { monthly_limit: 50_000, used: 0, remaining: 50_000 },
    });
  });

  test("show the use of any month, by day", async () => {
    const key = await admin.issue();
    await admin.database.query(
      (sql) => sql`
        insert into usage (license_id, month, used, by_day)
        values (${key.licenseUuid}::uuid, '2026-02-01', 7, array[0, 3])`,
    );
    const { body } = await admin.call("GET", `/keys/${key.id}/usage?month=2026-02`);
    expect(body).toMatchObject({ id: key.id, month: "2026-02", used: 7, imported: 4, monthly_limit: 50_000 });
    expect(body.days).toHaveLength(28);
    expect(body.days[1]).toEqual({ day: "2026-02-02", used: 3 });
    expect((await admin.call("GET", `/keys/${key.id}/usage`)).body).toMatchObject({ used: 0 });
  });
});

describe("POST /admin/v1/keys/{id}/…", () => {
  const changes: [verb: string, state: string, issue: () => Promise<IssuedKey>][] = [
    ["suspend", "suspended", () => admin.issue()],
    ["resume", "active", () => issueSuspended(admin)],
    ["revoke", "revoked", () => admin.issue()],
  ];
  for (const [verb, state, issue] of changes) {
    test(`${verb} changes the state, writes who did it and why, and forgets the license before the answer`, async () => {
      const key = await issue();
      const { status, body, headers } = await change(key, verb, { body: { reason: "ticket 7" } });
      expect([status, body]).toEqual([200, { id: key.id, state }]);
      expect(admin.forgotten).toContain(key.licenseUuid);
      expect((await auditOf(key))[0]).toEqual({
        ...{
          action: `key.${verb}`,
          actor: expect.stringMatching(/^token:token-/),
          door: "api",
          reason: "ticket 7",
        },
        request: headers.get("x-request-id") ?? "",
        address: "127.0.0.1",
      });
      expect(await change(key, verb)).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    });
  }

  test("refuse every change of a revoked key with a sentence that names no command", async () => {
    const key = await issueRevoked(admin);
    for (const verb of ["suspend", "resume", "rotate", "revoke"]) {
      const { status, body } = await change(key, verb);
      expect({ status, code: body.code }).toEqual({ status: 409, code: "CONFLICT" });
      expect(body.error).toMatch(/^Cannot \w+ key: (it|the key) is revoked/);
      expect(body.error).not.toMatch(/claviger|`/);
    }
  });

  test("store hostile reasons as they are, without keys", async () => {
    const key = await admin.issue();
    const hostile = `'); drop table keys; -- <script>alert(1)</script> \u202e $1 \\ %s ${key.apiKey}`;
    await change(key, "suspend", { body: { reason: hostile } });
    expect((await auditOf(key))[0]?.reason).toBe(hostile.replace(key.apiKey, "[key]"));
  });
});

describe("POST /admin/v1/keys/{id}/replace", () => {
  test("answers a key of the revoked key's license, and repeats the answer; a token needs keys:manage", async () => {
    const key = await issueRevoked(admin);
    const options = { headers: newIdempotencyKey(), body: { reason: "leaked" } };
    const first = await change(key, "replace", options);
    expect(first).toMatchObject({ status: 201, body: { replaces: key.id } });
    expect(admin.forgotten).toContain(key.licenseUuid);
    expect((await change(key, "replace", options)).body).toEqual(first.body);
    const again = await change(key, "replace", { headers: newIdempotencyKey() });
    expect(again).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    const shown = await admin.call("GET", `/keys/${first.body.id}`);
    expect(shown.body.license_id.slice(4)).toBe(key.licenseUuid.replaceAll("-", ""));
    const live = await change(await admin.issue(), "replace", { headers: newIdempotencyKey() });
    expect(live).toMatchObject({
      status: 409,
      body: { error: expect.stringContaining("rotate it instead") },
    });
  });
});

describe("POST /admin/v1/keys/{id}/rotate", () => {
  test("answers a second key of the same license, and repeats the answer", async () => {
    const key = await admin.issue({ expiresAt: NEVER_EXPIRES });
    const headers = newIdempotencyKey();
    const options = { headers, body: { overlap: "2d", reason: "leaked" } };
    const { status, body } = await change(key, "rotate", options);
    const ends = admin.clock.now().getTime() + 2 * 86_400_000;
    expect([status, body]).toMatchObject([
      201,
      { replaces: key.id, api_key: expect.stringMatching(/^svc_live_/) },
    ]);
    expect(new Date(body.old_works_until).getTime()).toBeWithin(ends - 60_000, ends + 1_000);
    expect(admin.forgotten).toContain(key.licenseUuid);
    expect((await auditOf(key))[0]).toMatchObject({ action: "key.rotate", reason: "leaked" });
    const again = await change(key, "rotate", options);
    expect([again.status, again.body]).toEqual([201, body]);
    expect(await change(key, "rotate", { headers })).toMatchObject({ status: 422 });
    expect(await change(key, "rotate")).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    const other = await admin.issue();
    expect(await change(other, "rotate", options)).toMatchObject({ status: 422 });
    const shown = await admin.call("GET", `/keys/${body.id}`);
    expect(shown.body.license_id.slice(4)).toBe(key.licenseUuid.replaceAll("-", ""));
  });

  test("makes one key of 24 simultaneous requests", async () => {
    const key = await admin.issue();
    const headers = newIdempotencyKey();
    const { keys = 0 } = await countRows(admin.database);
    const answers = await Promise.all(Array.from({ length: 24 }, () => change(key, "rotate", { headers })));
    expect(new Set(answers.map(({ status, body }) => JSON.stringify([status, body]))).size).toBe(1);
    expect(answers[0]?.status).toBe(201);
    expect(await countRows(admin.database)).toMatchObject({ keys: keys + 1 });
  });

  test("does not repeat the key to a token that could not rotate it now", async () => {
    const token = await admin.token({ name: "narrowed-rotator" });
    const key = await admin.issue();
    const options = { token, headers: newIdempotencyKey() };
    const first = await change(key, "rotate", options);
    const restrict = (tiers: string | null) =>
      admin.database.query(
        (sql) => sql`update tokens set tiers = ${tiers}::text[] where name = 'narrowed-rotator'`,
      );
    await restrict("{free}");
    expect(await change(key, "rotate", options)).toMatchObject({
      status: 403,
      body: { code: "NOT_ALLOWED" },
    });
    await restrict(null);
    expect((await change(key, "rotate", options)).body).toEqual(first.body);
  });
});
