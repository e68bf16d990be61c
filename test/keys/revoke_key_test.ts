import { describe, expect, test } from "bun:test";
import { newUuid } from "../../src/ids.ts";
import {
  countKeys,
  findKey,
  hashApiKey,
  type IssuedKey,
  listKeys,
  revokeKey,
  suspendKey,
} from "../../src/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { ACTOR, issue, NOW } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useTestDatabase } from "../support/use.ts";

const BY = { actor: ACTOR, now: NOW };

const server = useTestDatabase();

async function stateOf(key: IssuedKey, now = NOW): Promise<string | undefined> {
  return (await findKey(server.database, { uuid: uuidOf(key) }, { now }))?.state;
}

describe("revokeKey()", () => {
  test("revokeKey() revokes by hash and by UUID, once, with an audit row", async () => {
    const ways = [
      [(key: IssuedKey) => ({ hash: hashApiKey(key.apiKey) }), "KEY_NOT_FOUND"],
      [(key: IssuedKey) => ({ uuid: uuidOf(key) }), "CONFLICT"],
    ] as const;
    for (const [by, code] of ways) {
      const key = await issue(server.database);
      const actor = { ...ACTOR, reason: "lost" };
      expect(await revokeKey(createLicenseChanges(server.database), by(key), { actor, now: NOW })).toEqual({
        id: key.id,
      });
      expect(await stateOf(key)).toBe("revoked");
      expect(await revokeKey(createLicenseChanges(server.database), by(key), BY)).toMatchObject({ code });
      expect(await auditOf(key)).toMatchObject([
        { action: "key.issue" },
        { action: "key.revoke", before: { state: "active" }, after: { state: "revoked" }, reason: "lost" },
      ]);
    }
  });

  test("revokeKey() refuses a key that is unknown", async () => {
    expect(await revokeKey(createLicenseChanges(server.database), { uuid: newUuid() }, BY)).toMatchObject({
      code: "KEY_NOT_FOUND",
    });
    const hash = hashApiKey("none");
    expect(await revokeKey(createLicenseChanges(server.database), { hash }, BY)).toMatchObject({
      code: "KEY_NOT_FOUND",
    });
  });

  test("revokeKey() succeeds once when many callers revoke the same key at once", async () => {
    const key = await issue(server.database);
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, () =>
        revokeKey(createLicenseChanges(server.database), { uuid: uuidOf(key) }, BY),
      ),
    );
    expect(outcomes.filter((outcome) => !isRefusal(outcome))).toHaveLength(1);
    expect(await auditOf(key)).toHaveLength(2);
  });

  test("revokeKey() revokes suspended and expired keys, and no other key of the license", async () => {
    const suspended = await issue(server.database);
    await suspendKey(createLicenseChanges(server.database), uuidOf(suspended), BY);
    const expired = await issue(server.database, { expiresAt: new Date("2026-11-20T12:00:01Z") });
    const later = new Date("2026-12-01T00:00:00Z");
    expect(await stateOf(expired, later)).toBe("expired");
    for (const key of [suspended, expired]) {
      expect(
        isRefusal(
          await revokeKey(
            createLicenseChanges(server.database),
            { uuid: uuidOf(key) },
            { ...BY, now: later },
          ),
        ),
      ).toBe(false);
      expect(await stateOf(key, later)).toBe("revoked");
    }
  });
});

describe("suspendKey()", () => {
  test("suspendKey() suspends an active key, once, with an audit row", async () => {
    const key = await issue(server.database);
    expect(await suspendKey(createLicenseChanges(server.database), uuidOf(key), BY)).toMatchObject({
      id: key.id,
    });
    expect(await stateOf(key)).toBe("suspended");
    expect(await suspendKey(createLicenseChanges(server.database), uuidOf(key), BY)).toMatchObject({
      code: "CONFLICT",
    });
    expect((await auditOf(key)).map(({ action }) => action)).toEqual(["key.issue", "key.suspend"]);
  });

  test("suspendKey() refuses a revoked key", async () => {
    const key = await issue(server.database);
    await revokeKey(createLicenseChanges(server.database), { uuid: uuidOf(key) }, BY);
    expect(await suspendKey(createLicenseChanges(server.database), uuidOf(key), BY)).toMatchObject({
      code: "CONFLICT",
    });
    expect(await stateOf(key)).toBe("revoked");
  });
});

describe("listKeys()", () => {
  test("listKeys() lists every key, oldest first, and countKeys() counts them", async () => {
    const listed = await listKeys(server.database, { now: NOW });
    expect(listed).toHaveLength(await countKeys(server.database));
    const ids = listed.map(({ id }) => id);
    expect(ids).toEqual([...ids].sort());
  });

  test("findKey() returns the key's own earlier expiry, and only the use of this month", async () => {
    const key = await issue(server.database, { monthlyLimit: 7 });
    await server.database.query(
      (sql) => sql`update keys set own_expires_at = '2026-11-21T00:00:00Z' where id = ${uuidOf(key)}::uuid`,
    );
    await server.database.query(
      (sql) => sql`
        insert into usage (license_id, month, used)
        values (${key.licenseUuid}::uuid, '2026-11-01', 3), (${key.licenseUuid}::uuid, '2026-10-01', 5)`,
    );
    const find = (now: string) => findKey(server.database, { uuid: uuidOf(key) }, { now: new Date(now) });
    const expiresAt = new Date("2026-11-21T00:00:00Z");
    expect(await find("2026-11-20T23:59:59Z")).toMatchObject({
      state: "active",
      used: 3,
      monthlyLimit: 7,
      expiresAt,
    });
    expect(await find("2026-11-21T00:00:00Z")).toMatchObject({ state: "expired" });
    expect(await find("2026-12-01T00:00:00Z")).toMatchObject({ used: 0 });
    expect(await findKey(server.database, { uuid: newUuid() }, { now: NOW })).toBeUndefined();
  });
});

describe("keys", () => {
  test("keys and licenses cannot be deleted by any statement", async () => {
    for (const statement of ["delete from keys", "delete from licenses", "truncate keys, licenses cascade"]) {
      const deleted = server.database.query((sql) => sql.unsafe(statement));
      await expect(deleted).rejects.toThrow(/never deleted: revoke the key instead/);
    }
  });
});

async function auditOf(key: IssuedKey) {
  return await server.database.query<{ action: string }>(
    (sql) => sql`
      select action, before, after, reason from audit where key_id = ${uuidOf(key)}::uuid order by id`,
  );
}
