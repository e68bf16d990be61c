/** Login codes work once; sessions end by themselves, by logout and with their operator; only hashes are stored. */
import { beforeAll, describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import {
  endSession,
  findOperatorsOfCodes,
  findSession,
  listOperators,
  listSessions,
  parseCode,
  redeemCode,
  removeOperator,
  setRole,
} from "../../src/operators/mod.ts";
import { ACTOR, NOW } from "../support/issue.ts";
import { useTestDatabase } from "../support/use.ts";
import { enter, login } from "./login.ts";

const BY = { actor: ACTOR, now: NOW };
const LOGIN = { now: NOW, idleMinutes: 30 };
const server = useTestDatabase();

beforeAll(async () => {
  await login(server.database, "root", { role: "admin" });
});

const after = (minutes: number) => new Date(NOW.getTime() + minutes * 60_000);
const find = (cookieValue: string, minutes = 0, extend = true) =>
  findSession(server.database, cookieValue, { now: after(minutes), extends: extend });

async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const before = server.database.stats().statements;
  await work();
  return server.database.stats().statements - before;
}

describe("findOperatorsOfCodes()", () => {
  test("finds the operators of codes in one statement, and leaves the codes as they are", async () => {
    const codes: string[] = [];
    for (const name of ["found", "other"])
      codes.push((await login(server.database, name, { role: "viewer" })).code);
    const [first = "", second = ""] = codes;
    const unknown = "0".repeat(32);
    const ask = (now = NOW) => findOperatorsOfCodes(server.database, [unknown, second, first], { now });
    const found = new Map([
      [second, "other"],
      [first, "found"],
    ]);
    expect(await ask()).toEqual(found);
    expect(await statementsOf(ask)).toBe(1);
    expect(await ask(after(10))).toEqual(new Map());
    expect(await redeemCode(server.database, first, LOGIN)).toMatchObject({ operator: "found" });
    found.delete(first);
    expect(await ask()).toEqual(found);
  });
});

describe("parseCode()", () => {
  test("returns the digits of a code as people type it, and nothing for another text", () => {
    const code = "0123456789abcdef".repeat(2);
    expect(parseCode(` ${code.toUpperCase().replaceAll(/(.{4})/g, "$1 - ")}\n`)).toBe(code);
    for (const text of ["", code.slice(1), `${code}0`, "g".repeat(32), "0".repeat(10_000), "💡", "\0"])
      expect(parseCode(text)).toBeUndefined();
  });
});

describe("redeemCode()", () => {
  test("begins a session once, in one statement, with an audit row of the operator", async () => {
    const { code } = await login(server.database, "olga", { role: "editor" });
    const how = { ...LOGIN, request: "req_1", address: "192.0.2.1" };
    const session = await redeemCode(server.database, code, how);
    expect(session).toMatchObject({ operator: "olga", role: "editor" });
    expect(session?.cookieValue).toMatch(/^[0-9a-f]{64}$/);
    expect(await redeemCode(server.database, code, how)).toBeUndefined();
    const rows = await server.database.query(
      (sql) => sql`select actor, action, door, request, address, after from audit order by id desc limit 1`,
    );
    expect(rows).toEqual([
      {
        actor: "operator:olga",
        action: "session.begin",
        door: "console",
        request: "req_1",
        address: "192.0.2.1",
        after: { session: session?.id, way: "code" },
      },
    ]);
  });

  test("begins one session for a code that is used fifty times at once", async () => {
    const { code } = await login(server.database, "fifty", { role: "viewer" });
    const begun = await Promise.all(
      Array.from({ length: 50 }, () => redeemCode(server.database, code, LOGIN)),
    );
    expect(begun.filter((session) => session !== undefined)).toHaveLength(1);
    const sessions = await listSessions(server.database, { now: NOW });
    expect(sessions.filter(({ operator }) => operator === "fifty")).toHaveLength(1);
    expect(await statementsOf(() => redeemCode(server.database, code, LOGIN))).toBe(1);
  });

  test("takes a code as people type it, and no other text", async () => {
    const { code } = await login(server.database, "typist", { role: "viewer" });
    for (const wrong of ["", "x".repeat(10_000), code.slice(1), `${code}0`, `${code.slice(0, 31)}\0`, "💡"]) {
      expect(await redeemCode(server.database, wrong, LOGIN)).toBeUndefined();
    }
    const typed = ` ${code.toUpperCase().replaceAll(/(.{4})/g, "$1 - ")}\n`;
    expect(await redeemCode(server.database, typed, LOGIN)).toMatchObject({ operator: "typist" });
  });

  test("refuses a code after ten minutes", async () => {
    const { code } = await login(server.database, "late", { role: "viewer" });
    expect(await redeemCode(server.database, code, { ...LOGIN, now: after(10) })).toBeUndefined();
    expect(await redeemCode(server.database, code, { ...LOGIN, now: after(9.99) })).toBeDefined();
  });
});

describe("findSession()", () => {
  test("finds a session by its cookie in one statement, and nothing for other texts", async () => {
    const { id, cookieValue } = await enter(server.database, "finder", { role: "viewer" });
    const session = {
      id,
      operator: "finder",
      role: "viewer",
      proof: { how: "login code", at: NOW },
    } as const;
    expect(await find(cookieValue)).toEqual(session);
    expect(await find(cookieValue, 20)).toEqual(session);
    expect(await statementsOf(() => find(cookieValue))).toBe(1);
    for (const wrong of ["", "0".repeat(64), cookieValue.toUpperCase(), `${cookieValue} `]) {
      expect(await find(wrong)).toBeUndefined();
    }
  });

  test("ends a session after 30 minutes without activity, and a refresh of a page is no activity", async () => {
    const { cookieValue } = await enter(server.database, "idle", { role: "viewer" });
    expect(await find(cookieValue, 29)).toBeDefined();
    expect(await find(cookieValue, 58, false)).toBeDefined();
    expect(await find(cookieValue, 59, false)).toBeUndefined();
  });

  test.each([1, 2, 15, 30, 480, 720])(
    "ends a session after the %d minutes that it began with",
    async (idleMinutes) => {
      const name = `idle-${idleMinutes}`;
      const { cookieValue } = await enter(server.database, name, { role: "viewer", idleMinutes });
      const isListed = async (minutes: number) =>
        (await listSessions(server.database, { now: after(minutes) })).some(
          ({ operator }) => operator === name,
        );
      expect(await find(cookieValue, idleMinutes - 0.01, false)).toBeDefined();
      expect(await isListed(idleMinutes - 0.01)).toBe(true);
      expect(await find(cookieValue, idleMinutes, false)).toBeUndefined();
      expect(await isListed(idleMinutes)).toBe(false);
    },
  );

  test.each([1, 5, 60])("extends a session of %d minutes by each request", async (idleMinutes) => {
    const operator = `active-${idleMinutes}`;
    const { cookieValue } = await enter(server.database, operator, { role: "viewer", idleMinutes });
    for (let n = 1; n <= 5; n++) expect(await find(cookieValue, n * idleMinutes * 0.9)).toBeDefined();
    expect(await find(cookieValue, 5.5 * idleMinutes)).toBeUndefined();
  });

  test("ends a session after twelve hours, however active it is", async () => {
    const { cookieValue } = await enter(server.database, "eager", { role: "viewer" });
    for (let minutes = 20; minutes < 720; minutes += 20)
      expect(await find(cookieValue, minutes)).toBeDefined();
    expect(await find(cookieValue, 719.9)).toBeDefined();
    expect(await find(cookieValue, 720)).toBeUndefined();
  });

  test("writes the last activity at most once a minute", async () => {
    const { id, cookieValue } = await enter(server.database, "busy", { role: "viewer" });
    const lastSeenAt = async () =>
      (await listSessions(server.database, { now: NOW })).find((session) => session.id === id)?.lastSeenAt;
    await find(cookieValue, 0.9);
    expect(await lastSeenAt()).toEqual(NOW);
    await find(cookieValue, 1, false);
    expect(await lastSeenAt()).toEqual(NOW);
    await find(cookieValue, 1);
    expect(await lastSeenAt()).toEqual(after(1));
    const operators = await listOperators(server.database);
    expect(operators.find(({ name }) => name === "busy")?.lastSeenAt).toEqual(after(1));
  });

  test("keeps the time at which its operator was seen last, also after the end of the session", async () => {
    const seenAt = async () =>
      (await listOperators(server.database)).find(({ name }) => name === "seen")?.lastSeenAt;
    await login(server.database, "seen", { role: "viewer" });
    expect(await seenAt()).toBeNull();
    const { id, cookieValue } = await enter(server.database, "seen");
    expect(await seenAt()).toEqual(NOW);
    await find(cookieValue, 5);
    await find(cookieValue, 20, false);
    await endSession(server.database, id, BY);
    expect(await seenAt()).toEqual(after(5));
  });

  test("and changes of its operator do not wait for each other for ever", async () => {
    const { cookieValue } = await enter(server.database, "contended", { role: "viewer" });
    const work = Array.from({ length: 40 }, (_, n) =>
      n % 2 === 0
        ? find(cookieValue, n)
        : setRole(server.database, { name: "contended", role: n % 4 === 1 ? "editor" : "viewer" }, BY),
    );
    await Promise.all([...work, removeOperator(server.database, "contended", BY)]);
    expect(await find(cookieValue)).toBeUndefined();
  });
});

test("a code and a session that were made while their operator was removed let nobody in", async () => {
  const { cookieValue } = await enter(server.database, "racing", { role: "viewer" });
  const { code } = await login(server.database, "racing");
  // As if the removal had committed after their statements began.
  await server.database.query(
    (sql) => sql`update operators set removed_at = ${NOW}::timestamptz where name = 'racing'`,
  );
  expect(await find(cookieValue)).toBeUndefined();
  expect(await redeemCode(server.database, code, LOGIN)).toBeUndefined();
  const sessions = await listSessions(server.database, { now: NOW });
  expect(sessions.filter(({ operator }) => operator === "racing")).toEqual([]);
});

describe("endSession()", () => {
  test("ends a session once, with an audit row", async () => {
    const { id, cookieValue } = await enter(server.database, "leaver", { role: "viewer" });
    const by = { actor: { kind: "operator", name: "leaver" } as const, now: NOW };
    expect(await endSession(server.database, id, by)).toBe(true);
    expect(await find(cookieValue)).toBeUndefined();
    expect((await listAudit(server.database, { limit: 1 }))[0]).toMatchObject({
      actor: "operator:leaver",
      action: "session.end",
      before: { session: id, operator: "leaver" },
    });
    const ended = await enter(server.database, "leaver", { now: after(-31) });
    const rows = await listAudit(server.database);
    expect(await endSession(server.database, ended.id, by)).toBe(false);
    expect(await endSession(server.database, id, by)).toBe(false);
    expect(await endSession(server.database, "ses_1", by)).toBe(false);
    expect(await listAudit(server.database)).toEqual(rows);
  });

  test("ends with an operator only that operator's sessions", async () => {
    const { id, cookieValue } = await enter(server.database, "victim", { role: "viewer" });
    expect(await endSession(server.database, id, { ...BY, operator: "leaver" })).toBe(false);
    expect(await find(cookieValue)).toBeDefined();
    expect(await endSession(server.database, id, { ...BY, operator: "victim" })).toBe(true);
    expect(await find(cookieValue)).toBeUndefined();
  });
});
