/** Operators are created by their first login, are never deleted, and one admin always remains. */
import { describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { openDatabase, openSession } from "../../src/database/mod.ts";
import {
  issueToken,
  type LoginCode,
  listOperators,
  listSessions,
  loginOperator,
  redeemCode,
  removeOperator,
  setRole,
} from "../../src/operators/mod.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, BRAND, NOW, sentenceOf } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";
import { enter, login } from "./login.ts";

const BY = { actor: ACTOR, now: NOW };
const server = useForEach(createTestDatabase);

async function actions(): Promise<string[]> {
  return (await listAudit(server.database)).map(({ action, actor }) => `${actor} ${action}`).reverse();
}

async function roles(): Promise<Record<string, string>> {
  const operators = await listOperators(server.database);
  return Object.fromEntries(
    operators.map(({ name, role, removedAt }) => [name, removedAt ? "removed" : role]),
  );
}

describe("loginOperator()", () => {
  test("creates a new operator with a role, and only a code for a known one", async () => {
    const first = await login(server.database, "olga", { role: "admin" });
    expect(first).toMatchObject({ role: "admin", isNew: true });
    expect(first.code).toMatch(/^[0-9a-f]{32}$/);
    expect(first.expiresAt).toEqual(new Date(NOW.getTime() + 600_000));
    expect(await login(server.database, "olga")).toMatchObject({ role: "admin", isNew: false });
    expect(await login(server.database, "olga", { role: "admin" })).toMatchObject({ isNew: false });
    const code = "command:tester operator.login";
    expect(await actions()).toEqual(["command:tester operator.create", code, code, code]);
    const [row] = await listAudit(server.database, { limit: 1 });
    expect(row?.after).toEqual({ operator: "olga" });
  });

  test("refuses a new name without a role, another role, and the name of a removed operator", async () => {
    await login(server.database, "olga", { role: "admin" });
    await login(server.database, "ivan", { role: "viewer" });
    await removeOperator(server.database, "ivan", BY);
    const before = await actions();
    const attempt = async (name: string, role?: "viewer" | "admin") =>
      sentenceOf(await loginOperator(server.database, { name, role }, BY));
    expect(await attempt("nina")).toContain(
      "no operator is named nina; a new operator needs a role: viewer, editor or admin",
    );
    expect(await attempt("olga", "viewer")).toContain("olga has the role admin, not viewer");
    expect(await attempt("ivan", "viewer")).toContain("ivan was removed, and names are not used again");
    expect(await attempt("ivan")).toContain("was removed");
    for (const name of ["Olga", "", "a b", "-x", "x".repeat(65), "olga\n"]) {
      expect(await attempt(name, "admin")).toContain("a name must be 1 to 64 lowercase letters");
    }
    expect(await actions()).toEqual(before);
    expect(await roles()).toEqual({ ivan: "removed", olga: "admin" });
  });

  test("called twice at once with a new name, creates one operator with one role", async () => {
    const created = await Promise.all([
      loginOperator(server.database, { name: "olga", role: "admin" }, BY),
      loginOperator(server.database, { name: "olga", role: "viewer" }, BY),
      loginOperator(server.database, { name: "olga", role: "admin" }, BY),
    ]);
    const codes = created.filter((each): each is LoginCode => !isRefusal(each));
    expect(codes.filter(({ isNew }) => isNew)).toHaveLength(1);
    expect(codes.length).toBeLessThan(3);
    expect((await actions()).filter((action) => action.endsWith("operator.create"))).toHaveLength(1);
  });
});

describe("setRole()", () => {
  test("changes the role with its audit row, and nothing if the operator has it already", async () => {
    await login(server.database, "olga", { role: "admin" });
    await login(server.database, "ivan", { role: "viewer" });
    expect(await setRole(server.database, { name: "ivan", role: "editor" }, BY)).toEqual({ isChanged: true });
    const [row] = await listAudit(server.database, { limit: 1 });
    expect(row).toMatchObject({
      action: "operator.role",
      before: { operator: "ivan", role: "viewer" },
      after: { operator: "ivan", role: "editor" },
    });
    const before = await actions();
    expect(await setRole(server.database, { name: "ivan", role: "editor" }, BY)).toEqual({
      isChanged: false,
    });
    expect(await actions()).toEqual(before);
  });

  test("refuses an unknown operator, a removed one, and a lower role for the last admin", async () => {
    await login(server.database, "olga", { role: "admin" });
    await login(server.database, "ivan", { role: "viewer" });
    await removeOperator(server.database, "ivan", BY);
    const attempt = async (name: string) =>
      sentenceOf(await setRole(server.database, { name, role: "editor" }, BY));
    expect(await attempt("nina")).toContain("no operator has this name");
    expect(await attempt("ivan")).toContain("was removed already");
    expect(await attempt("olga")).toBe(
      "Cannot change the role of olga: it is the last admin; make another operator an admin first",
    );
  });
});

describe("removeOperator()", () => {
  test("ends the sessions and codes, and lists the tokens that the operator issued", async () => {
    await login(server.database, "olga", { role: "admin" });
    await enter(server.database, "ivan", { role: "admin" });
    // This one has ended by its age, so it is not counted.
    await server.database.query(
      (sql) => sql`update operator_sessions set created_at = created_at - interval '13 hours'`,
    );
    await enter(server.database, "ivan");
    const { code } = await login(server.database, "ivan");
    for (const [name, by] of [
      ["shop", "ivan"],
      ["desk", "ivan"],
      ["other", "root"],
    ] as const) {
      await issueToken(
        server.database,
        { name, scopes: ["keys:read"], restriction: {} },
        { brand: BRAND, actor: { kind: "command", name: by }, now: NOW },
      );
    }
    const rehearsed = await removeOperator(server.database, "ivan", { ...BY, isDryRun: true });
    expect(await roles()).toEqual({ ivan: "admin", olga: "admin" });
    const removed = await removeOperator(server.database, "ivan", BY);
    expect(removed).toEqual({ sessions: 1, tokens: ["desk", "shop"] });
    expect(rehearsed).toEqual(removed);
    expect(await listSessions(server.database, { now: NOW })).toEqual([]);
    const left = await server.database.query(
      (sql) => sql`
        select operator from operator_sessions union all select operator from login_codes order by operator`,
    );
    expect(left).toEqual([{ operator: "olga" }]);
    expect(await redeemCode(server.database, code, { now: NOW, idleMinutes: 30 })).toBeUndefined();
    expect(sentenceOf(await removeOperator(server.database, "ivan", BY))).toContain("was removed already");
    expect(sentenceOf(await removeOperator(server.database, "nina", BY))).toContain(
      "no operator has this name",
    );
  });

  test("refuses the last admin, also as a dry run", async () => {
    await login(server.database, "olga", { role: "admin" });
    await login(server.database, "ivan", { role: "editor" });
    for (const isDryRun of [true, false]) {
      const refused = await removeOperator(server.database, "olga", { ...BY, isDryRun });
      expect(sentenceOf(refused)).toContain("it is the last admin");
    }
    expect(await roles()).toEqual({ ivan: "editor", olga: "admin" });
  });

  test("leaves one admin when all are removed or get a lower role at once", async () => {
    const names = ["anna", "boris", "clara", "dora"];
    for (const name of names) await login(server.database, name, { role: "admin" });
    // Every change begins before the first can end: a transaction holds the rows until all changes wait.
    const options = { clock: systemClock, log: silentLog, maxConnections: names.length, deadlineMs: 15_000 };
    const database = openDatabase(server.address, options);
    const session = openSession(server.address, { statementTimeoutMs: 15_000 });
    const changes = await session.transaction(async (sql) => {
      await sql`select from operators for update`;
      const begun = names.map((name, index) =>
        index % 2 === 0
          ? removeOperator(database, name, BY)
          : setRole(database, { name, role: "viewer" }, BY),
      );
      await until(async () => (await countWaiting(server.database)) === names.length);
      return { begun };
    });
    const outcomes = await Promise.all(changes.begun);
    await Promise.all([session.close(), database.close()]);
    expect(outcomes.filter((outcome) => isRefusal(outcome))).toHaveLength(1);
    expect(Object.values(await roles()).filter((role) => role === "admin")).toHaveLength(1);
  });
});
