import { describe, expect, test } from "bun:test";
import { parseId, toId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import {
  findKey,
  hashApiKey,
  type IssuedKey,
  keyPattern,
  listKeys,
  revokeKey,
} from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import { ACTOR, BRAND, countRows, issue, NOW, sentenceOf, tryToIssue } from "../../support/issue.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();

describe("issueKey()", () => {
  test("issueKey() makes an account, a license, a key and the audit row", async () => {
    const expiresAt = new Date("2027-11-20T12:00:00Z");
    const account = { email: "ada@example.org", name: "Ada", organization: "Engines" };
    const key = await issue(server.database, { ...account, tier: "commercial", mode: "test", expiresAt });
    expect(key.apiKey).toMatch(keyPattern(BRAND));
    const found = await findKey(server.database, { hash: hashApiKey(key.apiKey) }, { now: NOW });
    expect(found).toMatchObject({
      ...{ ...account, id: key.id, userId: key.userId, tier: "commercial", mode: "test", expiresAt },
      ...{ state: "active", monthlyLimit: 500_000, used: 0, createdAt: NOW },
    });
    const rows = await server.database.query(
      (sql) => sql`
        select actor, action, at, before, after from audit
         where key_id = ${parseId("key", key.id) ?? ""}::uuid`,
    );
    expect([...rows]).toMatchObject([
      {
        ...{ actor: `command:${ACTOR.name}`, action: "key.issue", at: NOW, before: null },
        after: { tier: "commercial", mode: "test", monthly_limit: null },
      },
    ]);
  });

  test("issueKey() stores places, and the audit log has them only if machines are counted", async () => {
    const afterOf = async (key: IssuedKey) => {
      const [row] = await server.database.query<{ after: object }>(
        (sql) => sql`select after from audit where license_id = ${key.licenseUuid}::uuid`,
      );
      return row?.after;
    };
    const [plain, locked, floating] = [
      await issue(server.database),
      await issue(server.database, { maxMachines: 5, seatMinutes: null }),
      await issue(server.database, { maxMachines: 30, seatMinutes: 15 }),
    ];
    const found = (key: IssuedKey) =>
      findKey(server.database, { hash: hashApiKey(key.apiKey) }, { now: NOW });
    expect(await found(plain)).toMatchObject({ maxMachines: null, seatMinutes: null });
    expect(await found(locked)).toMatchObject({ maxMachines: 5, seatMinutes: null });
    expect(await found(floating)).toMatchObject({ maxMachines: 30, seatMinutes: 15 });
    const rest = await afterOf(plain);
    expect(Object.keys(rest ?? {}).sort()).toEqual(["expires_at", "mode", "monthly_limit", "tier"]);
    expect(await afterOf(locked)).toEqual({ ...rest, max_machines: 5 });
    expect(await afterOf(floating)).toEqual({ ...rest, max_machines: 30, seat_minutes: 15 });
  });

  test("issueKey() refuses seat minutes without a machine limit, and writes nothing", async () => {
    const before = await countRows(server.database);
    const error = "seat minutes need a machine limit, so give both";
    expect(await tryToIssue(server.database, { seatMinutes: 15 })).toMatchObject({
      code: "INVALID_REQUEST",
      sentence: `Cannot issue key: ${error}`,
      fields: [{ field: "seat_minutes", error }],
    });
    expect(await countRows(server.database)).toEqual(before);
  });

  test("issueKey() shortens an e-mail of 254 characters to a name of 200", async () => {
    const email = `${"a".repeat(64)}@${`${"b".repeat(62)}.`.repeat(3)}`.padEnd(254, "c");
    const { apiKey } = await issue(server.database, { email });
    const found = await findKey(server.database, { hash: hashApiKey(apiKey) }, { now: NOW });
    expect(found).toMatchObject({ email, name: email.slice(0, 200) });
  });

  test("issueKey() adds a new license to the existing account of an e-mail", async () => {
    const first = await issue(server.database, { email: "twice@example.org", name: "Twice" });
    const second = await issue(server.database, { email: "twice@example.org" });
    expect(second.userId).toBe(first.userId);
    expect(second.licenseUuid).not.toBe(first.licenseUuid);
  });

  test.each([{ name: "Somebody Else" }, { organization: "Elsewhere" }])(
    "issueKey() refuses %j if the account has another value, and writes nothing",
    async (other) => {
      const email = `fixed-${Object.keys(other)[0]}@example.org`;
      await issue(server.database, { email, name: "Fixed", organization: "Here" });
      const before = await countRows(server.database);
      expect(await tryToIssue(server.database, { email, ...other })).toMatchObject({
        code: "CONFLICT",
        sentence:
          `Cannot issue key: the account ${email} has another name or organization; leave them out, or change the ` +
          "account first",
      });
      expect(await countRows(server.database)).toEqual(before);
      await issue(server.database, { email, name: "Fixed", organization: "Here" });
    },
  );

  test("issueKey() refuses an expiry in the past or at this instant", async () => {
    const before = await countRows(server.database);
    for (const expiresAt of [new Date("2020-01-01T00:00:00Z"), NOW]) {
      expect(sentenceOf(await tryToIssue(server.database, { expiresAt }))).toContain("lies in the past");
    }
    expect(await countRows(server.database)).toEqual(before);
  });

  test("issueKey() refuses an external id that another license has, also one of a revoked key, and names the license", async () => {
    const externalId = "order-1";
    const key = await issue(server.database, { externalId });
    await revokeKey(
      createLicenseChanges(server.database),
      { hash: hashApiKey(key.apiKey) },
      { actor: ACTOR, now: NOW },
    );
    const before = await countRows(server.database);
    expect(await tryToIssue(server.database, { externalId })).toMatchObject({
      code: "ALREADY_EXISTS",
      sentence: "Cannot issue key: another license has this external id",
      id: toId("lic", key.licenseUuid),
    });
    expect(await countRows(server.database)).toEqual(before);
    await issue(server.database, { externalId: "Order-1" });
    const filter = { externalId };
    expect(await listKeys(server.database, { now: NOW, filter })).toMatchObject([{ id: key.id, externalId }]);
  });

  test("issueKey() gives an external id to one of many keys that are issued at once", async () => {
    const issued = await Promise.all(
      Array.from({ length: 20 }, () => tryToIssue(server.database, { externalId: "contested" })),
    );
    expect(issued.filter((outcome) => !isRefusal(outcome))).toHaveLength(1);
    expect(issued.filter((outcome) => isRefusal(outcome) && outcome.code === "ALREADY_EXISTS")).toHaveLength(
      19,
    );
  });

  test("issueKey() makes one account when many callers issue keys for a new e-mail at once", async () => {
    const keys = await Promise.all(
      Array.from({ length: 20 }, () => issue(server.database, { email: "crowd@example.org" })),
    );
    expect(new Set(keys.map(({ userId }) => userId)).size).toBe(1);
    expect(new Set(keys.map(({ apiKey }) => apiKey)).size).toBe(20);
  });

  test("issueKey() writes nothing if the audit row cannot be written", async () => {
    await server.database.query(
      (sql) => sql`alter table audit add constraint no_more check (id < 0) not valid`,
    );
    const before = await countRows(server.database);
    await expect(tryToIssue(server.database)).rejects.toThrow("no_more");
    expect(await countRows(server.database)).toEqual(before);
    await server.database.query((sql) => sql`alter table audit drop constraint no_more`);
  });
});
