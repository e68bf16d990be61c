/** GET and PATCH /admin/v1/licenses/{id}. */

import { describe, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { useAdmin } from "../support/use.ts";
import { newIdempotencyKey } from "./sample_requests.ts";

const admin = useAdmin();

const pathOf = ({ licenseUuid }: IssuedKey) => `/licenses/${toId("lic", licenseUuid)}`;

function patch(key: IssuedKey, body: object, token?: string) {
  return admin.call("PATCH", pathOf(key), { body, ...(token && { token }) });
}

async function changesOf({ licenseUuid }: IssuedKey) {
  const rows = await admin.database.query<Record<string, unknown>>(
    (sql) => sql`
      select action, reason, before, after from audit
       where license_id = ${licenseUuid}::uuid and action like 'license.%' order by id`,
  );
  return [...rows];
}

describe("GET /admin/v1/licenses/{id}", () => {
  test("shows the license with its keys, the newest first", async () => {
    const key = await admin.issue({ externalId: "license-1", monthlyLimit: 7, mode: "test" });
    const rotated = await admin.call("POST", `/keys/${key.id}/rotate`, { headers: newIdempotencyKey() });
    const { status, body } = await admin.call("GET", pathOf(key));
    expect([status, body]).toEqual([
      200,
      {
        id: toId("lic", key.licenseUuid),
        user_id: key.userId,
        email: expect.any(String),
        external_id: "license-1",
        tier: "research",
        monthly_limit: 7,
        max_machines: null,
        self_releases: null,
        shows_machines: null,
        max_offline_days: null,
        starts_on_first_use: false,
        term_days: null,
        latest_start: null,
        started_at: null,
        seat_minutes: null,
        used: 0,
        over: 0,
        expires_at: "9999-12-31T23:59:59Z",
        updates_until: null,
        features: ["batch_inference", "streaming", "training", "calibration", "model_export"],
        own_features: {},
        entitlements: {},
        own_entitlements: {},
        created_at: expect.any(String),
        keys: [
          { id: rotated.body.id, mode: "test", state: "active" },
          { id: key.id, mode: "test", state: "active" },
        ],
      },
    ]);
  });

  test("shows which keys have expired, as GET /admin/v1/keys/{id} does", async () => {
    const key = await admin.issue();
    await admin.call("POST", `/keys/${key.id}/rotate`, {
      headers: newIdempotencyKey(),
      body: { overlap: "0h" },
    });
    expect((await admin.call("GET", `/keys/${key.id}`)).body.state).toBe("expired");
    const states = (await admin.call("GET", pathOf(key))).body.keys.map(
      ({ state }: { state: string }) => state,
    );
    expect(states).toEqual(["active", "expired"]);
  });
});

describe("PATCH /admin/v1/licenses/{id}", () => {
  test("changes all values at once, with one audit row, and drops the cached license before the answer", async () => {
    const key = await admin.issue({ externalId: "patched-1" });
    const fields = {
      tier: "commercial",
      monthly_limit: 9,
      expires_at: "2099-01-01T00:00:00Z",
      external_id: "patched-2",
    };
    const { status, body } = await patch(key, { ...fields, shorten: true, reason: "order 8" });
    expect([status, body]).toMatchObject([
      200,
      { ...fields, changed: true, id: toId("lic", key.licenseUuid) },
    ]);
    expect(admin.forgotten).toContain(key.licenseUuid);
    expect(await changesOf(key)).toMatchObject([
      {
        action: "license.change",
        reason: "order 8",
        before: { tier: "research", monthly_limit: null },
        after: { tier: "commercial", monthly_limit: 9, changed: ["external_id"] },
      },
    ]);
    expect((await patch(key, fields)).body).toEqual({ ...body, changed: false, before: {} });
    expect(await changesOf(key)).toHaveLength(1);
  });

  test("takes null for the tier's limit and for no external id, and refuses an external id in use", async () => {
    const key = await admin.issue({ externalId: "removed-1", monthlyLimit: 3 });
    expect((await patch(key, { monthly_limit: null })).body).toMatchObject({ monthly_limit: 50_000 });
    expect((await patch(key, { external_id: null })).body).toMatchObject({ external_id: null });
    const next = await admin.issue({ externalId: "removed-1" });
    expect(await patch(key, { external_id: "removed-1" })).toMatchObject({
      status: 409,
      body: { code: "ALREADY_EXISTS", id: toId("lic", next.licenseUuid) },
    });
    const token = await admin.token({ scopes: ["keys:manage"] });
    const hidden = await patch(key, { external_id: "removed-1" }, token);
    expect([hidden.status, hidden.body]).toEqual([
      409,
      { error: "Cannot change license: another license has this external id", code: "ALREADY_EXISTS" },
    ]);
  });

  test("sets, lowers and removes the places of a license", async () => {
    const key = await admin.issue();
    const steps: [sent: object, places: object][] = [
      [
        { max_machines: 30, seat_minutes: 15 },
        { max_machines: 30, seat_minutes: 15 },
      ],
      [{ max_machines: 29 }, { max_machines: 29, seat_minutes: 15 }],
      [{ seat_minutes: null }, { max_machines: 29, seat_minutes: null }],
      [{ seat_minutes: 5 }, { max_machines: 29, seat_minutes: 5 }],
      [{ max_machines: null }, { max_machines: null, seat_minutes: null }],
    ];
    for (const [sent, places] of steps) {
      const { status, body } = await patch(key, sent);
      expect({ status, ...body }).toMatchObject({ status: 200, ...places, changed: true });
      expect((await admin.call("GET", pathOf(key))).body).toMatchObject(places);
      for (const path of [`/keys/${key.id}`, `/keys/${key.id}/why`])
        expect((await admin.call("GET", path)).body).toMatchObject(places);
    }
    const error = "seat minutes need a machine limit, so give both";
    expect(await patch(key, { seat_minutes: 5 })).toMatchObject({
      status: 400,
      body: {
        error: `Cannot change machines: ${error}`,
        code: "INVALID_REQUEST",
        details: [{ field: "seat_minutes", error }],
      },
    });
  });

  test("lets a restricted token lower the machines of a license, and neither raise nor remove them", async () => {
    const token = await admin.token({
      scopes: ["keys:read", "keys:manage"],
      restriction: { tiers: ["research"] },
    });
    const key = await admin.issue();
    for (const allowed of [{ max_machines: 3 }, { max_machines: 2 }])
      expect(await patch(key, allowed, token)).toMatchObject({ status: 200, body: allowed });
    for (const refused of [{ max_machines: 3 }, { max_machines: null }, { seat_minutes: 5 }]) {
      const { status, body } = await patch(key, refused, token);
      expect({ refused, status, code: body.code }).toEqual({ refused, status: 403, code: "NOT_ALLOWED" });
      expect(body.error).toEndWith("or more machines or other seats than the license has");
    }
    expect((await admin.call("GET", pathOf(key))).body).toMatchObject({
      max_machines: 2,
      seat_minutes: null,
    });
  });

  test("refuses an expiry in the past", async () => {
    const key = await admin.issue();
    expect((await patch(key, { expires_at: "2020-01-01" })).body).toMatchObject({
      error: "Cannot renew license: the expiry lies in the past",
      details: [{ field: "expires_at", error: "the expiry lies in the past" }],
    });
  });
});
