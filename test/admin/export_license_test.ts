/** POST /admin/v1/keys/{id}/license: a signed license for a customer without a network. */

import { describe, expect, test } from "bun:test";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { parseLicenseFile, toJwk, verifySignature } from "../../src/licensing/signed_licenses/mod.ts";
import { listSigningKeys } from "../../src/licensing/signed_licenses/signing_keys.ts";
import { startAdmin } from "../support/admin.ts";
import { createTestClock } from "../support/clock.ts";
import { setPlaces } from "../support/machines.ts";
import { useForAll } from "../support/use.ts";
import { issueRevoked, issueSuspended } from "./sample_requests.ts";

const DAY_S = 86_400;
const admin = useForAll(async () => {
  // A clock that stands still, so that times can be compared exactly.
  const clock = createTestClock();
  const at = new Date("2026-11-20T12:00:00.500Z");
  return await startAdmin({
    clock: {
      ...clock,
      now: () => new Date(at),
      nowMs: () => at.getTime(),
      advance: (ms) => void at.setTime(at.getTime() + ms),
    },
  });
});

function exportOf(key: { readonly id: string }, body: object = {}, token?: string) {
  return admin.call("POST", `/keys/${key.id}/license`, { body, ...(token !== undefined && { token }) });
}

function nowS(): number {
  return Math.floor(admin.clock.now().getTime() / 1_000);
}

async function countExports(): Promise<number> {
  const rows = await admin.database.query((sql) => sql`select jti from exported_licenses`);
  return rows.length;
}

describe("POST /admin/v1/keys/{id}/license", () => {
  test("signs a license for the days that were chosen, whatever the tier's days are, and answers with the file", async () => {
    const key = await admin.issue({ expiresAt: NEVER_EXPIRES });
    const { status, body } = await exportOf(key, { days: 400, fingerprint: "host 7", nonce: "n" });
    expect(status).toBe(201);
    const keys = await listSigningKeys(admin.database);
    const verified = verifySignature(
      body.license,
      keys.map(({ publicKey }) => publicKey),
    );
    const exp = nowS() + 400 * DAY_S;
    expect(verified).toMatchObject({
      ok: true,
      kid: toJwk(keys[0]?.publicKey ?? "").kid,
      claims: { key_id: key.id, exp, fingerprint: "host 7", nonce: "n", jti: body.jti },
    });
    expect(parseLicenseFile(body.file)).toBe(body.license);
    expect(body.kid).toBe(keys[0]?.kid);
    expect(Date.parse(body.expires_at)).toBe(exp * 1_000);
  });

  test("is valid for a year by default, and never longer than the license", async () => {
    const { body } = await exportOf(await admin.issue({ expiresAt: NEVER_EXPIRES }));
    expect(Date.parse(body.expires_at)).toBe((nowS() + 365 * DAY_S) * 1_000);
    const expiresAt = new Date((nowS() + 9 * DAY_S) * 1_000);
    const { body: ending } = await exportOf(await admin.issue({ expiresAt }));
    expect(Date.parse(ending.expires_at)).toBe(expiresAt.getTime());
  });

  test("takes the most days, the longest nonce and the longest fingerprint, and nothing beyond them", async () => {
    const body = { days: 3_650, nonce: "~".repeat(128), fingerprint: "~".repeat(200) };
    const key = await admin.issue();
    expect((await exportOf(key, body)).status).toBe(201);
    for (const beyond of [
      ...[0, 1.5, 3_651].map((days) => ({ days })),
      ...["", "~".repeat(129), "é", "a\nb"].map((nonce) => ({ nonce })),
      ...["", "~".repeat(201), "é", "a\nb"].map((fingerprint) => ({ fingerprint })),
    ]) {
      const { status, body: answer } = await exportOf(key, { ...body, ...beyond });
      const seen = { beyond, status, field: answer.details?.[0].field };
      expect(seen).toEqual({ beyond, status: 400, field: Object.keys(beyond)[0] });
    }
  });

  test("refuses a key that is suspended, revoked, expired or unknown", async () => {
    const before = await countExports();
    const expired = await admin.issue({ expiresAt: new Date(admin.clock.now().getTime() + 1_000) });
    const states = [
      [await issueSuspended(admin), 409, "CONFLICT"],
      [await issueRevoked(admin), 409, "CONFLICT"],
      [{ id: `key_${"0".repeat(32)}` }, 404, "KEY_NOT_FOUND"],
      [{ id: "key_1" }, 404, "KEY_NOT_FOUND"],
      [expired, 409, "CONFLICT"],
    ] as const;
    admin.clock.advance(1_000);
    for (const [key, status, code] of states) {
      const answer = await exportOf(key);
      expect({ status: answer.status, code: answer.body.code }).toEqual({ status, code });
    }
    expect(await countExports()).toBe(before);
  });

  test("takes a place of a license that counts machines, with a warning", async () => {
    const key = await admin.issue({ expiresAt: NEVER_EXPIRES });
    const uncounted = await exportOf(key, { days: 3_650, fingerprint: "workstation-7" });
    expect(uncounted.body).toMatchObject({ machine_id: null, warning: null });
    await setPlaces(admin.database, key.licenseUuid, { maxMachines: 1 });
    const unnamed = await exportOf(key, { days: 3_650 });
    expect({ status: unnamed.status, code: unnamed.body.code }).toEqual({
      status: 400,
      code: "INVALID_REQUEST",
    });
    const { status, body } = await exportOf(key, { days: 3_650, fingerprint: "workstation-7" });
    expect(status).toBe(201);
    expect(body.machine_id).toMatch(/^mch_[0-9a-f]{32}$/);
    expect(body.warning).toBe(
      `The machine keeps its place until ${body.expires_at}, also if it is released: check its fingerprint`,
    );
    const full = await exportOf(key, { days: 1, fingerprint: "workstation-8" });
    expect({ status: full.status, code: full.body.code }).toEqual({ status: 409, code: "CONFLICT" });
    expect(full.body.error).toContain(`the next one until ${body.expires_at}; release an active machine, `);
  });

  test("a restricted token signs for a year at most", async () => {
    const token = await admin.token({ restriction: { tiers: ["research"] }, scopes: ["keys:issue"] });
    const key = await admin.issue({ tier: "research" });
    expect((await exportOf(key, { days: 365 }, token)).status).toBe(201);
    const longer = await exportOf(key, { days: 366 }, token);
    expect({ status: longer.status, code: longer.body.code }).toEqual({ status: 403, code: "NOT_ALLOWED" });
    expect((await exportOf(key, { days: 366 })).status).toBe(201);
  });
});
