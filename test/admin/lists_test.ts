/** The lists of the API: pages without gaps and repetitions, and bounds. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { openSession } from "../../src/database/mod.ts";
import { type IssuedKey, revokeKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges, updateAccount } from "../../src/licensing/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { uuidOf } from "../support/keys.ts";
import { useForEach } from "../support/use.ts";
import { add, by, DAY_MS, readAll, use } from "./list_kit.ts";
import { stopWaiting } from "./stop_waiting.ts";

const admin = useForEach(startAdmin);

async function issueMany(count: number): Promise<IssuedKey[]> {
  const keys: IssuedKey[] = [];
  for (let at = 0; at < count; at++) keys.push(await admin.issue());
  return keys;
}

describe("every list", () => {
  test("GET /keys gives each key once, while keys are issued, revoked and suspended between the pages", async () => {
    const keys = await issueMany(7);
    let round = 0;
    const listed = await readAll(admin, "/keys?limit=2", async () => {
      const [first, second] = [keys[round], keys[6 - round]];
      round++;
      if (round > 3 || !first || !second) return;
      await admin.issue();
      await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(first) }, by(admin));
      await suspendKey(createLicenseChanges(admin.database), uuidOf(second), by(admin));
    });
    const ids = listed.map(({ id }) => id);
    expect(ids.slice(0, 7)).toEqual(keys.map(({ id }) => id));
    expect(new Set(ids).size).toBe(10);
    expect(ids).toHaveLength(10);
  });

  test("GET /accounts gives each account once, while accounts are added and renamed between the pages", async () => {
    const keys = await issueMany(5);
    let round = 0;
    const listed = await readAll(admin, "/accounts?limit=2", async () => {
      if (round++ > 2) return;
      const { id } = await admin.issue({ email: `a-${round}@example.org` });
      expect(id).toBeString();
      for (const { userId } of keys)
        await updateAccount(admin.database, {
          ...by(admin),
          uuid: parseId("usr", userId) ?? "",
          name: `n${round}`,
        });
    });
    expect(listed.map(({ id }) => id).slice(0, 5)).toEqual(keys.map(({ userId }) => userId));
    expect(listed).toHaveLength(8);
  });

  test("GET /usage gives each license once, while others begin to count and counts grow", async () => {
    const keys = await issueMany(7);
    for (const key of keys.slice(0, 5)) await use(admin, key, 1);
    let round = 0;
    const listed = await readAll(admin, "/usage?limit=2", async () => {
      if (round++ === 0) for (const key of keys.slice(5)) await use(admin, key, 5);
      await admin.database.query((sql) => sql`update usage set used = used + 1`);
    });
    expect(listed.map(({ email }) => email)).toEqual(
      (await readAll(admin, "/accounts")).map(({ email }) => email),
    );
  });

  test("GET /models gives each model once, while versions are added between the pages", async () => {
    const names = ["e", "d", "c", "b", "a"];
    for (const name of names) await add(admin, name);
    let round = 0;
    const listed = await readAll(admin, "/models?limit=2", () =>
      add(admin, names[round++] ?? `f${round}`, "2.0.0"),
    );
    expect(listed.map(({ name, version }) => `${name} ${version}`)).toEqual([
      ...["e 1.0.0", "d 1.0.0", "c 1.0.0", "b 1.0.0", "a 1.0.0"],
    ]);
  });

  test("has 50 rows without a limit, and no `next` after a last page that is full", async () => {
    await issueMany(51);
    const first = await admin.call("GET", "/keys");
    expect(first.body.data).toHaveLength(50);
    const rest = await admin.call("GET", `/keys?limit=1&after=${first.body.next}`);
    expect(rest.body).toEqual({ data: [expect.anything()], next: null });
  });

  test("refuses other limits, damaged cursors, and cursors of other lists or filters", async () => {
    await issueMany(3);
    await add(admin, "a");
    const { next } = (await admin.call("GET", "/keys?limit=1&mode=live")).body;
    const damaged = `${next.slice(0, 30)}${next[30] === "A" ? "B" : "A"}${next.slice(31)}`;
    for (const [path, field] of [
      ...["0", "101", "-1", "1e1", "2.5", "", "x", "9".repeat(30)].map((limit) => [
        `/keys?limit=${limit}`,
        "limit",
      ]),
      ["/keys?mode=test&after=", "after"],
      [`/keys?after=${next}`, "after"],
      [`/keys?mode=live&tier=free&after=${next}`, "after"],
      [`/keys?mode=live&after=${damaged}`, "after"],
      [`/keys?mode=live&after=${next.repeat(10)}`, "after"],
      ...["/accounts", "/models", "/usage", "/audit"].map((list) => [`${list}?after=${next}`, "after"]),
    ] as [string, string][]) {
      const { status, body } = await admin.call("GET", path);
      expect({ path, status, code: body.code, field: body.details?.[0]?.field }).toEqual({
        path,
        status: 400,
        code: "INVALID_REQUEST",
        field,
      });
    }
    expect((await admin.call("GET", `/keys?limit=2&mode=live&after=${next}`)).status).toBe(200);
  });

  test("keeps the time of its first page for the filters that refer to it", async () => {
    const expiresAt = new Date(admin.clock.now().getTime() + DAY_MS / 2);
    for (let at = 0; at < 3; at++) await admin.issue({ expiresAt });
    const listed = await readAll(admin, "/keys?expiring_within=1&limit=1", () => admin.clock.advance(DAY_MS));
    expect(listed.map(({ state }) => state)).toEqual(["active", "active", "active"]);
    expect(await readAll(admin, "/keys?expiring_within=1")).toEqual([]);
  });

  test("says what to do when the server stopped a statement, and answers the next request", async () => {
    await admin.issue();
    const token = await admin.token();
    const session = openSession(admin.testDatabase.address, { statementTimeoutMs: 30_000 });
    try {
      await session.connect();
      for (const [method, path, sentence] of [
        ["GET", "/keys", "narrow the filter or the search"],
        ["GET", "/accounts", "narrow the filter or the search"],
        ["POST", `/accounts/usr_${"0".repeat(32)}/erase`, "nothing was changed; try again"],
      ] as const) {
        await session.sql`begin`;
        await session.sql`lock table accounts, licenses in access exclusive mode`;
        const answer = admin.call(method, path, { token });
        await stopWaiting(session);
        const { status, body, headers } = await answer;
        expect({ path, status, code: body.code }).toEqual({ path, status: 503, code: "SERVICE_UNAVAILABLE" });
        expect(body.error).toContain(sentence);
        expect(body.error).toContain("more than 2 seconds");
        expect(headers.get("retry-after")).toBe("1");
        await session.sql`rollback`;
        expect((await admin.call("GET", "/keys", { token })).body.data).toHaveLength(1);
      }
    } finally {
      await session.close();
    }
  });
});
