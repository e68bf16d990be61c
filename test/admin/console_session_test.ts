/** Sessions of the console: their beginning, their end, and what their role may do. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { listSessions, removeOperator, setRole } from "../../src/operators/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { ACTOR } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { textsOf } from "./texts_of.ts";

const MINUTE_MS = 60_000;
const ISSUE = { email: "ada@example.org", tier: "free", mode: "live", never: "yes" };

const admin = useAdmin();
const client = createConsoleClient(admin);
beforeAll(async () => {
  // The last admin cannot be removed.
  await client.newCode("root");
});
// The wrong codes and cookies of a test do not count in the next one.
beforeEach(() => admin.clock.advance(61_001));

describe("A session", () => {
  test("is no token, and a token is no session", async () => {
    const { cookie } = await client.logIn();
    const authorization = `Bearer ${await admin.token()}`;
    expect((await client.send("/keys", { headers: { authorization } })).location).toBe(
      "/console/enter?to=%2Fconsole%2Fkeys",
    );
    const answer = await fetch(`${admin.url}/admin/v1/whoami`, { headers: { cookie } });
    expect(answer.status).toBe(401);
  });

  test("is not extended by a page that refreshes itself, but by every other request", async () => {
    const { cookie } = await client.logIn();
    const headers = { "x-refresh": "1" };
    for (const minutes of [10, 10, 9]) {
      admin.clock.advance(minutes * MINUTE_MS);
      expect((await client.send("/keys", { cookie, headers })).status).toBe(200);
    }
    admin.clock.advance(2 * MINUTE_MS);
    expect((await client.send("/keys", { cookie, headers })).location).toBe(
      "/console/enter?ended&to=%2Fconsole%2Fkeys",
    );
    const busy = await client.logIn();
    admin.clock.advance(20 * MINUTE_MS);
    // Only the page itself refreshes: a form is always a sign of activity.
    expect((await client.send("/keys/issue", { cookie: busy.cookie, form: {}, headers })).status).toBe(400);
    admin.clock.advance(20 * MINUTE_MS);
    expect(await client.isLoggedIn(busy.cookie)).toBe(true);
  });

  test("ends after the minutes of the setting with which it began, also while another process has another setting", async () => {
    const { testDatabase: on, clock } = admin;
    const patient = await startAdmin({ on, clock, admin: { sessionIdleMinutes: 60 } });
    const there = createConsoleClient(patient);
    const long = await there.logIn("viewer", "patient");
    const short = await client.logIn();
    clock.advance(59 * MINUTE_MS);
    expect(await client.isLoggedIn(short.cookie)).toBe(false);
    expect(await there.isLoggedIn(long.cookie)).toBe(true);
    clock.advance(60 * MINUTE_MS);
    expect(await there.isLoggedIn(long.cookie)).toBe(false);
    await patient.close();
  });

  test("ends by logout and with its operator; a form after its end changes nothing", async () => {
    const before = await client.countRows("keys");
    const left = await client.logIn();
    expect((await client.send("/logout", { cookie: left.cookie, form: {} })).location).toBe(
      "/console/enter?done=logged-out",
    );
    const removed = await client.logIn();
    await removeOperator(admin.database, removed.name, { actor: ACTOR, now: admin.clock.now() });
    for (const { cookie } of [left, removed]) {
      expect(await client.isLoggedIn(cookie)).toBe(false);
      expect((await client.send("/keys/issue", { cookie, form: ISSUE })).location).toBe(
        "/console/enter?ended&to=%2Fconsole%2F",
      );
    }
    expect(await client.countRows("keys")).toBe(before);
  });

  test("ends when another login replaces it in the same browser, after a question that names it", async () => {
    const { name, cookie } = await client.logIn();
    const code = await client.newCode("another");
    for (const form of [{ code }, { code, replaces: "another" }]) {
      const asked = await client.send("/enter", { cookie, form });
      expect(asked.status).toBe(200);
      for (const shown of [`<b>${name}</b> is logged in`, `name="replaces" value="${name}"`, code])
        expect(asked.text).toContain(shown);
      expect(await client.isLoggedIn(cookie)).toBe(true);
    }
    const { status } = await client.send("/enter", { cookie, form: { code, replaces: name } });
    expect(status).toBe(303);
    expect(await client.isLoggedIn(cookie)).toBe(false);
  });

  test("is replaced without a question by another login of its operator", async () => {
    const { name, cookie } = await client.logIn();
    const form = { code: await client.newCode(name) };
    const entered = await client.send("/enter", { cookie, form });
    expect(entered.status).toBe(303);
    expect(await client.isLoggedIn(cookie)).toBe(false);
    expect(await client.isLoggedIn(entered.headers.get("set-cookie")?.split(";")[0] ?? "")).toBe(true);
  });

  test("goes on after a wrong code", async () => {
    const { cookie } = await client.logIn();
    for (const code of ["0".repeat(32), "", "x"]) {
      expect((await client.send("/enter", { cookie, form: { code } })).status).toBe(401);
      expect(await client.isLoggedIn(cookie)).toBe(true);
    }
  });

  test("is not found by any other cookie", async () => {
    const { cookie } = await client.logIn();
    const [name, value = ""] = cookie.split("=");
    for (const other of ["", value.slice(1), `${value}0`, value.toUpperCase(), "0".repeat(64), "'", "%00"]) {
      expect([other, await client.isLoggedIn(`${name}=${other}`)]).toEqual([other, false]);
    }
    expect(await client.isLoggedIn(`claviger_1=${value}`)).toBe(false);
  });

  test("costs no statement if its cookie was made up; 60 such in a minute, then 429, but not for an ended session", async () => {
    // Other tests sent such cookies, too.
    admin.clock.advance(61_000);
    const [living, ended] = [await client.logIn(), await client.logIn()];
    await client.send("/logout", { cookie: ended.cookie, form: {} });
    for (let n = 0; n < 100; n++) expect(await client.isLoggedIn(ended.cookie)).toBe(false);
    const [name] = living.cookie.split("=");
    const before = admin.database.stats().statements;
    const statuses: number[] = [];
    for (let n = 0; n < 70; n++) {
      const cookie = `${name}=${n.toString().repeat(107).slice(0, 107)}`;
      const { status, headers, text } = await client.send("/keys", { cookie });
      statuses.push(status);
      if (status !== 429) continue;
      const seconds = Number(headers.get("retry-after"));
      expect(seconds).toBeWithin(1, 62);
      expect(text).toContain(`wait ${seconds} seconds`);
    }
    expect(statuses).toEqual([...Array(60).fill(303), ...Array(10).fill(429)]);
    expect(admin.database.stats().statements).toBe(before);
    expect(await client.isLoggedIn(living.cookie)).toBe(true);
    expect((await client.send("/keys", { cookie: ended.cookie })).status).toBe(303);
    admin.clock.advance(61_000);
  });

  test("allows what the role of its operator allows now", async () => {
    const { name, cookie } = await client.logIn("editor");
    expect((await client.send("/keys/issue", { cookie })).status).toBe(200);
    await setRole(admin.database, { name, role: "viewer" }, { actor: ACTOR, now: admin.clock.now() });
    expect((await client.send("/keys/issue", { cookie })).status).toBe(403);
    expect((await client.send("/keys/issue", { cookie, form: ISSUE })).status).toBe(403);
    const json = { "content-type": "application/json" };
    expect((await client.send("/keys/issue", { cookie, form: {}, headers: json })).status).toBe(403);
  });

  test("is ended by an admin, but by no other operator", async () => {
    const other = await client.logIn("viewer");
    const sessions = await listSessions(admin.database, { now: admin.clock.now() });
    const { id } = sessions.find(({ operator }) => operator === other.name) ?? {};
    for (const [role, status, isLeft] of [
      ["viewer", 404, true],
      ["editor", 404, true],
      ["admin", 303, false],
    ] as const) {
      const { cookie } = await client.logIn(role);
      const ended = await client.send(`/access/sessions/${id}/end`, { cookie, form: {} });
      expect([role, ended.status]).toEqual([role, status]);
      expect([role, await client.isLoggedIn(other.cookie)]).toEqual([role, isLeft]);
    }
  });
});

describe("POST /console/enter", () => {
  const wrong = (n: number) => ({ code: n.toString().padStart(32, "0") });

  test("refuses a code that was used, and says so", async () => {
    const code = await client.newCode("root");
    expect((await client.send("/enter", { form: { code } })).status).toBe(303);
    const { status, text } = await client.send("/enter", { form: { code } });
    expect(status).toBe(401);
    expect(textsOf(text, "#code-error")[0]).toContain("it was used already, is older than ten minutes");
  });

  test("refuses a code after ten minutes", async () => {
    const code = await client.newCode("root");
    admin.clock.advance(10 * MINUTE_MS);
    expect((await client.send("/enter", { form: { code } })).status).toBe(401);
  });

  test("answers ten wrong codes a minute from one address, then 429, and a valid code always", async () => {
    const valid = [await client.newCode("root"), await client.newCode("root")];
    const statuses: number[] = [];
    for (let n = 0; n < 12; n++) statuses.push((await client.send("/enter", { form: wrong(n) })).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    const { headers, text } = await client.send("/enter", { form: { code: "no code", to: "/console/keys" } });
    const seconds = Number(headers.get("retry-after"));
    expect(seconds).toBeWithin(1, 62);
    expect(text).toContain(`Too many logins from your address failed: wait ${seconds} seconds`);
    expect(text).toContain('name="to" value="/console/keys"');
    for (const code of valid) expect((await client.send("/enter", { form: { code } })).status).toBe(303);
    admin.clock.advance(seconds * 1_000);
    expect((await client.send("/enter", { form: wrong(0) })).status).toBe(401);
  });

  test("lets a valid code in while hundreds of wrong ones arrive from its address, with few statements", async () => {
    for (let n = 0; n < 10; n++) await client.send("/enter", { form: wrong(n) });
    const code = await client.newCode("root");
    const before = admin.database.stats().statements;
    const flood = Array.from({ length: 300 }, (_, n) => client.send("/enter", { form: wrong(n) }));
    const good = client.send("/enter", { form: { code } });
    expect((await good).status).toBe(303);
    // On a busy host some are not decided in time.
    for (const { status } of await Promise.all(flood)) expect([429, 503]).toContain(status);
    expect(admin.database.stats().statements - before).toBeLessThan(30);
  });

  test("asks the database nothing for a text without the form of a code", async () => {
    const { cookie } = await client.logIn();
    const before = admin.database.stats().statements;
    for (const code of ["", "0".repeat(31), "g".repeat(32)])
      expect((await client.send("/enter", { cookie, form: { code } })).status).toBe(401);
    expect(admin.database.stats().statements).toBe(before);
  });
});
