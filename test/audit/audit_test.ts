import { beforeAll, describe, expect, test } from "bun:test";
import { followAudit, listAudit } from "../../src/audit/mod.ts";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { hashApiKey, type IssuedKey, revokeKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { ACTOR, issue, NOW } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();

beforeAll(async () => {
  await issue(server.database);
});

async function revokeFor(reason: string, key?: IssuedKey): Promise<string | null | undefined> {
  const revoked = key ?? (await issue(server.database));
  const keyUuid = parseId("key", revoked.id) ?? "";
  await revokeKey(
    createLicenseChanges(server.database),
    { uuid: keyUuid },
    { actor: { ...ACTOR, reason }, now: NOW },
  );
  return (await listAudit(server.database, { keyUuid }))[0]?.reason;
}

describe("audit", () => {
  test.each([
    "update audit set actor = 'nobody'",
    "update audit set actor = 'nobody' where false",
    "delete from audit",
    "truncate audit",
    "insert into audit select * from audit on conflict (id) do update set actor = 'nobody'",
  ])("audit refuses its owner: %s", async (statement) => {
    const before = await listAudit(server.database);
    await expect(server.database.query((sql) => sql.unsafe(statement))).rejects.toThrow();
    expect(await listAudit(server.database)).toEqual(before);
  });

  test("auditCte() redacts whole keys, keys that were cut short, and hashes of keys in a reason", async () => {
    const key = await issue(server.database);
    const leaked = `found ${key.apiKey}, ${key.apiKey.slice(0, 20)} and ${hashApiKey(key.apiKey)} on a wall`;
    expect(await revokeFor(leaked, key)).toBe("found [key], [key] and [key] on a wall");
  });

  test("auditCte() keeps a reason of 2,000 characters in any script, and refuses a longer one", async () => {
    for (const reason of ["x".repeat(2_000), "💡".repeat(2_000)])
      expect(await revokeFor(reason)).toBe(reason);
    await expect(revokeFor("x".repeat(2_001))).rejects.toThrow("reason_length");
  });

  test("auditCte() stores quotes, line breaks and backslashes in a reason unchanged", async () => {
    const reason = `'; drop table audit; -- "\n\t\\ $1`;
    expect(await revokeFor(reason)).toBe(reason);
  });
});

describe("the values of a row", () => {
  test("listAudit() and followAudit() show instants in UTC to the second, as PostgreSQL wrote them in any zone", async () => {
    const { database } = server;
    await database.query(
      (sql) => sql`
        insert into audit (at, actor, action, before, after)
        values (${NOW}::timestamptz, 'command:t', 'stored.row', '"2027-01-31T00:00:00+00:00"',
                '{"expires_at": "2027-01-31T00:00:00.386+00:00", "own_expires_at": "2027-01-31T05:30:00+05:30",
                  "retired_at": null, "ended_at": "infinity", "name": "2027-01-31T00:00:00+00:00"}')`,
    );
    const filter = { action: "stored.row" };
    // Transactions of other tests may delay it.
    const followed = await until(async () => {
      const found = await followAudit(database, { filter, limit: 1 });
      return !isRefusal(found) && found.rows.length > 0 && found.rows;
    });
    for (const [row] of [await listAudit(database, filter), followed]) {
      expect(row).toMatchObject({ before: "2027-01-31T00:00:00+00:00" });
      expect(row?.after).toEqual({
        ...{ expires_at: "2027-01-31T00:00:00Z", own_expires_at: "2027-01-31T00:00:00Z" },
        ...{ retired_at: null, ended_at: "infinity", name: "2027-01-31T00:00:00+00:00" },
      });
    }
  });
});

describe("listAudit()", () => {
  test("listAudit() lists the newest rows first, filters by key and by account, and stops at the limit", async () => {
    const first = await issue(server.database, { email: "audit@example.org" });
    await issue(server.database, { email: "audit@example.org" });
    await revokeFor("over", first);
    const accountUuid = parseId("usr", first.userId) ?? "";
    const actions = (rows: { action: string }[]) => rows.map(({ action }) => action);
    const ofAccount = await listAudit(server.database, { accountUuid });
    expect(actions(ofAccount)).toEqual(["key.revoke", "key.issue", "key.issue"]);
    const keyUuid = parseId("key", first.id) ?? "";
    expect(actions(await listAudit(server.database, { keyUuid }))).toEqual(["key.revoke", "key.issue"]);
    expect(actions(await listAudit(server.database, { limit: 1 }))).toEqual(["key.revoke"]);
    expect(ofAccount[0]).toMatchObject({
      ...{ at: NOW, actor: "command:tester", userId: first.userId, keyId: first.id, reason: "over" },
      ...{ before: { state: "active" }, after: { state: "revoked" } },
    });
  });
});
