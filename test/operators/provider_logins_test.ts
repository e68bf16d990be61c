/** People who log in at an identity provider: the issuer and the subject name them, and their groups give the role. */
import { describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import {
  type BegunSession,
  endSessionsOf,
  findSession,
  listOperators,
  loginIdentity,
  loginOperator,
  type ProvenIdentity,
  redeemCode,
  removeOperator,
  setRole,
} from "../../src/operators/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, NOW, orThrow, sentenceOf } from "../support/issue.ts";
import { useForEach } from "../support/use.ts";
import { login } from "./login.ts";

const BY = { actor: ACTOR, now: NOW };
const LOGIN = { now: NOW, idleMinutes: 30, request: "req_1", address: "192.0.2.7" };
const OLGA: ProvenIdentity = {
  issuer: "https://login.example.org",
  subject: "248289761001",
  wantedNames: ["Olga@example.org"],
  role: "editor",
  provedAt: new Date(NOW.getTime() - 3_600_000),
};
const server = useForEach(createTestDatabase);

async function enter(changes: Partial<ProvenIdentity> = {}): Promise<BegunSession> {
  return orThrow(await loginIdentity(server.database, { ...OLGA, ...changes }, LOGIN));
}

const find = ({ cookieValue }: BegunSession) =>
  findSession(server.database, cookieValue, { now: NOW, extends: false });

async function actions(): Promise<string[]> {
  return (await listAudit(server.database)).map(({ action, actor }) => `${actor} ${action}`).reverse();
}

describe("loginIdentity()", () => {
  test("creates the operator at the first login only, with audit rows that have address and way", async () => {
    const first = await enter();
    expect(first).toMatchObject({ operator: "olga", role: "editor" });
    expect(await enter()).toMatchObject({ operator: "olga" });
    const [operator, ...others] = await listOperators(server.database);
    expect(others).toEqual([]);
    expect(operator).toMatchObject({ name: "olga", role: "editor", issuer: OLGA.issuer, lastSeenAt: NOW });
    const begin = "operator:olga session.begin";
    expect(await actions()).toEqual(["operator:olga operator.create", begin, begin]);
    const [row] = await listAudit(server.database, { limit: 1 });
    expect(row).toMatchObject({ after: { way: "provider" }, request: "req_1", address: "192.0.2.7" });
  });

  test("proves who the person is as of the time that the provider says, not of the login", async () => {
    expect(await find(await enter())).toMatchObject({ proof: { how: "provider", at: OLGA.provedAt } });
  });

  test("gives the role of the groups at each login, which applies to the other sessions, too", async () => {
    const before = await enter();
    expect(await enter({ role: "admin" })).toMatchObject({ role: "admin" });
    expect(await find(before)).toMatchObject({ role: "admin" });
    const [, row] = await listAudit(server.database, { limit: 2 });
    expect(row).toMatchObject({
      action: "operator.role",
      before: { role: "editor" },
      after: { role: "admin" },
    });
  });

  test("is another person under another issuer or subject, and gives no name twice", async () => {
    await login(server.database, "olga", { role: "admin" });
    expect((await enter()).operator).toBe("olga-2");
    expect((await enter({ issuer: "https://other.example.org" })).operator).toBe("olga-3");
    expect((await enter({ subject: "248289761002" })).operator).toBe("olga-4");
    const lasting = await enter();
    expect(lasting.operator).toBe("olga-2");
  });

  test("makes a name that fits the rule of names of any text", async () => {
    const names = [
      "Żółć 🦊",
      "",
      "@example.org",
      "Olga Ivanova",
      "José",
      "x".repeat(300),
      "../../etc",
      "-- ;drop",
    ];
    const got: string[] = [];
    for (const [index, name] of names.entries())
      got.push((await enter({ wantedNames: [name], subject: `${index}` })).operator);
    expect(got).toEqual([
      "operator",
      "operator-2",
      "operator-3",
      "olga-ivanova",
      "jose",
      "x".repeat(40),
      "etc",
      "drop",
    ]);
  });

  test("names the operator by the first text that makes a plain name, of which no letter is lost", async () => {
    const texts = [
      ["Łukasz", "lukasz.z@example.org", "1"],
      ["ольга", "", "auth0|507f"],
      ["北京", "ольга@example.org", "6dd8b1f2-0a4c-4c3e-9a51-8f4b4f0c9d11"],
    ];
    const got: string[] = [];
    for (const [index, wantedNames] of texts.entries())
      got.push((await enter({ wantedNames, subject: `${index}` })).operator);
    expect(got).toEqual(["lukasz.z", "auth0-507f", "6dd8b1f2-0a4c-4c3e-9a51-8f4b4f0c9d11"]);
  });

  test("creates one operator for simultaneous first logins of a person", async () => {
    const sessions = await Promise.all(Array.from({ length: 8 }, () => enter()));
    expect(new Set(sessions.map(({ operator }) => operator))).toEqual(new Set(["olga"]));
    expect(await listOperators(server.database)).toHaveLength(1);
  });

  test("refuses an operator who was removed, whose sessions have ended", async () => {
    const session = await enter({ role: "admin" });
    orThrow(await removeOperator(server.database, "olga", BY));
    expect(await find(session)).toBeUndefined();
    expect(sentenceOf(await loginIdentity(server.database, OLGA, LOGIN))).toContain("You were removed");
    expect(await listOperators(server.database)).toHaveLength(1);
  });
});

test("endSessionsOf() ends the sessions and codes of the person alone, with audit rows that say why", async () => {
  const session = await enter();
  const other = await enter({ subject: "another" });
  const { code } = await login(server.database, "olga");
  await endSessionsOf(server.database, OLGA, LOGIN);
  expect(await find(session)).toBeUndefined();
  expect(await find(other)).toBeDefined();
  expect(await redeemCode(server.database, code, LOGIN)).toBeUndefined();
  const [row] = await listAudit(server.database, { limit: 1 });
  expect(row).toMatchObject({
    action: "session.end",
    actor: "operator:olga",
    before: { session: session.id },
    reason: "the provider sent no group any more that may log in",
  });
});

test("endSessionsOf() deletes a session that had ended before, without a row that says that it ended now", async () => {
  const session = await enter();
  const later = { ...LOGIN, now: new Date(NOW.getTime() + 31 * 60_000) };
  await endSessionsOf(server.database, OLGA, later);
  expect(await find(session)).toBeUndefined();
  expect(await actions()).toEqual(["operator:olga operator.create", "operator:olga session.begin"]);
});

describe("an admin of the provider", () => {
  test("does not count for the last admin, and can be removed", async () => {
    await login(server.database, "root", { role: "admin" });
    await enter({ role: "admin" });
    expect(sentenceOf(await removeOperator(server.database, "root", BY))).toContain("it is the last admin");
    expect(sentenceOf(await setRole(server.database, { name: "root", role: "viewer" }, BY))).toContain(
      "last admin",
    );
    orThrow(await removeOperator(server.database, "olga", BY));
  });

  test("gets no other role by hand, nor by a link", async () => {
    await enter({ role: "admin" });
    const changed = await setRole(server.database, { name: "olga", role: "viewer" }, BY);
    expect(sentenceOf(changed)).toBe(
      "Cannot change the role of olga: it follows the groups at https://login.example.org",
    );
    const linked = await loginOperator(server.database, { name: "olga", role: "viewer" }, BY);
    expect(sentenceOf(linked)).toBe(
      "Cannot create login code: olga logs in at https://login.example.org, where the groups give the role",
    );
  });
});
