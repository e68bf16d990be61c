/** The pages of keys: their size, the state of a key, and that a new key is shown once. `key_actions_test.ts` has the actions. */

import { beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS, NEVER_EXPIRES, toDay } from "../../src/base/calendar.ts";
import { newUuid, toId } from "../../src/base/ids.ts";
import { commitEvents } from "../../src/usage/mod.ts";
import { dumpText } from "../support/dump.ts";
import { MUCH_ROOM, usageEvent } from "../support/events.ts";
import { uuidOf } from "../support/keys.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";

const MAX_BYTES = 150_000;
const LONG = {
  name: `"`.repeat(200),
  organization: "\u{1f511}".repeat(200),
  externalId: `"`.repeat(250),
};

const admin = useAdmin();
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("admin"));
});

const sizeOf = (text: string) => Buffer.byteLength(text);

const wordsOf = (text: string) =>
  text
    .replace(/<wbr[^>]*>/g, "")
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ");

describe("A page is small", () => {
  test("the list with 50 of the longest names", async () => {
    const domain = `${"b".repeat(60)}.`.repeat(3);
    for (let n = 10; n < 61; n++)
      await admin.issue({
        ...LONG,
        email: `${"&".repeat(62)}${n}@${domain}org`,
        externalId: `${LONG.externalId}${n}`,
      });
    const { status, text } = await client.send("/keys", { cookie });
    expect(status).toBe(200);
    expect(text.match(/<tr>/g)).toHaveLength(51);
    expect(sizeOf(text)).toBeLessThan(MAX_BYTES);
  });

  test("the list of accounts, an account and the use of a month with 50 of the longest names", async () => {
    const domain = `${"b".repeat(60)}.`.repeat(3);
    const longest = { name: "\u202e".repeat(200), organization: `"`.repeat(200) };
    const reason = "<".repeat(2_000);
    let account = "";
    for (let n = 10; n < 61; n++) {
      await admin.issue({ ...longest, email: `${"'".repeat(62)}${n}@${domain}org` });
      const key = { email: `owner@${domain}org`, externalId: `${`"`.repeat(252)}${n}` };
      const { id, userId } = await admin.issue({ ...longest, ...key });
      account = userId;
      if (n < 30) await client.send(`/keys/${id}/suspend`, { cookie, form: { reason } });
    }
    await admin.database.query(
      (sql) => sql`insert into usage (license_id, month, used) select id, '2026-05-01', 7 from licenses`,
    );
    for (const path of ["/accounts", `/accounts/${account}`, "/usage?month=2026-05"]) {
      const { status, text } = await client.send(path, { cookie });
      expect([path, status]).toEqual([path, 200]);
      expect([path, sizeOf(text) < MAX_BYTES]).toEqual([path, true]);
    }
  });

  test("the form that issues a key, with the longest text that it may get", async () => {
    const answer = await fetch(`${admin.url}/console/keys/issue`, {
      method: "POST",
      headers: { cookie, origin: admin.url, "content-type": "application/x-www-form-urlencoded" },
      // Browsers write three bytes for each of these.
      body: `email=${`"`.repeat(60_000)}`,
    });
    expect(answer.status).toBe(400);
    expect(sizeOf(await answer.text())).toBeLessThan(MAX_BYTES);
  });

  test("a key with the longest names, reasons and history, also after a refused form", async () => {
    const key = await admin.issue({ ...LONG, email: "long@example.org" });
    const reason = "<".repeat(2_000);
    for (let n = 0; n < 12; n++)
      for (const action of ["suspend", "resume"])
        expect((await client.send(`/keys/${key.id}/${action}`, { cookie, form: { reason } })).status).toBe(
          303,
        );
    const page = await client.send(`/keys/${key.id}`, { cookie });
    expect(page.text).toContain("The newest 20 changes");
    expect(sizeOf(page.text)).toBeLessThan(MAX_BYTES);
    const form = { reason: `"`.repeat(10_000), repeat: `"`.repeat(10_000) };
    const refused = await client.send(`/keys/${key.id}/revoke`, { cookie, form });
    expect(refused.status).toBe(400);
    expect(sizeOf(refused.text)).toBeLessThan(MAX_BYTES);
  });
});

test("A rotated key is in its answer and nowhere else", async () => {
  const key = await admin.issue();
  const { status, text, headers } = await client.send(`/keys/${key.id}/rotate`, {
    cookie,
    form: { overlap_days: "1" },
  });
  expect({ status, cache: headers.get("cache-control") }).toEqual({ status: 200, cache: "no-store" });
  const [apiKey = ""] = /svc_live_[0-9a-f]{48}/.exec(text) ?? [];
  expect(apiKey).not.toBe("");
  const pages = await Promise.all(
    [`/keys/${key.id}`, "/keys", "/keys.csv", "/audit"].map((path) => client.send(path, { cookie })),
  );
  const kept = [await dumpText(admin.database), ...admin.logLines, ...pages.map((page) => page.text)];
  expect(kept.filter((place) => place.includes(apiKey.slice(-48)))).toEqual([]);
});

test("A key is renewed until the last second of its last day, which may be today", async () => {
  const key = await admin.issue();
  const today = admin.clock.now().toISOString().slice(0, 10);
  const { status } = await client.send(`/keys/${key.id}/renew`, {
    cookie,
    form: { last_day: today, shorten: "yes" },
  });
  expect(status).toBe(303);
  const token = await admin.token();
  const { body } = await admin.call("GET", `/keys/${key.id}`, { token });
  expect(body.expires_at).toBe(`${today}T23:59:59Z`);
});

test("A form changes nothing if one of its fields is wrong", async () => {
  const key = await admin.issue({ expiresAt: NEVER_EXPIRES, tier: "free" });
  const wrong: [action: string, form: Record<string, string>][] = [
    ["suspend", { reason: "a\u0007b" }],
    ["renew", { last_day: "2026-02-30" }],
    ["renew", { last_day: "" }],
    ["tier", {}],
    ["tier", { tier: "gold" }],
    ["limit", { monthly_limit: "-1" }],
    ["limit", { monthly_limit: "1e3" }],
    ["machines", { max_machines: "0" }],
    ["machines", { max_machines: "5", seat_minutes: "129601" }],
    ["machines", { seat_minutes: "5" }],
    ["external-id", { external_id: key.apiKey }],
    ["rotate", {}],
    ["rotate", { overlap_days: "3651" }],
    ["license", { days: "30", fingerprint: "ü" }],
    ["revoke", {}],
    ["revoke", { repeat: key.id.toUpperCase() }],
  ];
  const before = await dumpText(admin.database);
  for (const [action, form] of wrong) {
    const { status, text } = await client.send(`/keys/${key.id}/${action}`, { cookie, form });
    expect([action, form, status]).toEqual([action, form, 400]);
    expect(text).toContain(`class="error"`);
    expect(text).toContain(`<details class="action" name="action" id="${action}" open`);
  }
  const rows = (dump: string) => dump.split("\n").filter((line) => !line.includes("last_seen"));
  expect(rows(await dumpText(admin.database))).toEqual(rows(before));
});

describe("The state of a key", () => {
  test("says in words why the service refuses it now, in the list, on its page and on that of its account", async () => {
    const email = "refused@example.org";
    const used = await admin.issue({ email, monthlyLimit: 0 });
    const hurried = await admin.issue({ email });
    await admin.database.query(
      (sql) => sql`
        insert into too_many_requests (key_id, began_at, requests, refused)
        values (${uuidOf(hurried)}::uuid, ${admin.clock.now()}::timestamptz, 240, 173)`,
    );
    await admin.database.query(
      (sql) => sql`
        insert into refusals (key_id, code, reason, last_at, count)
        values (${uuidOf(hurried)}::uuid, 'RATE_LIMIT_EXCEEDED', 'analytics', ${admin.clock.now()}::timestamptz, 173)`,
    );
    const many = "active too many requests 173 of 240 in the last hour";
    for (const path of [`/keys?account=${email}`, `/accounts/${used.userId}`]) {
      const words = wordsOf((await client.send(path, { cookie })).text);
      expect(words).toContain("quota used up");
      expect(words).toContain(many);
    }
    const page = wordsOf((await client.send(`/keys/${hurried.id}`, { cookie })).text);
    expect(page).toContain(many);
    expect(page).toContain("The service refuses some requests with this key.");
    expect(page).toContain("Too many events in a minute: the client must wait");
    expect(page).toContain("It sends too many requests (173 of 240 in the last hour): the client must wait");
    expect(page).toContain(
      "the key is valid; some requests are refused, because there are too many in a minute 429",
    );
    await admin.database.query((sql) => sql`update too_many_requests set requests = refused`);
    const all = wordsOf((await client.send(`/keys/${hurried.id}`, { cookie })).text);
    expect(all).toContain("It sends too many requests (173 refused in the last hour): the client must wait");
    const other = wordsOf((await client.send(`/keys/${used.id}`, { cookie })).text);
    expect(other).toMatch(
      /quota used up Key [^ ]+ , key_\w+ Copy of refused@example.org , license lic_\w+ The service refuses this key\./,
    );
    expect(other).not.toContain("active");
  });
});

test("a page says of a request what its row of the audit log says, and nothing if that is about another key", async () => {
  const [one, other] = [await admin.issue(), await admin.issue()];
  const revoked = await client.send(`/keys/${one.id}/revoke`, {
    cookie,
    form: { repeat: one.apiKey.slice(-4) },
  });
  const suspended = await client.send(`/keys/${other.id}/suspend`, { cookie, form: {} });
  const requests = [revoked, suspended].map(({ location }) => location?.split("?done=")[1] ?? "");
  const claimOf = async ({ id }: { readonly id: string }, done: string) => {
    const { status, text } = await client.send(`/keys/${id}?done=${done}`, { cookie });
    expect(status).toBe(200);
    return /revoked for good|refused from now on|downloaded|Nothing changed/.exec(wordsOf(text))?.[0];
  };
  expect(await Promise.all(requests.map((done) => claimOf(other, done)))).toEqual([
    undefined,
    "refused from now on",
  ]);
  const [, request = ""] = requests;
  for (const done of ["same", `same.${request}`, `revoke.${request}`, `license.${request}`])
    expect(await claimOf(other, done)).toBeUndefined();
});

test("a form that changes nothing says so in its own answer", async () => {
  const { id } = await admin.issue();
  const { status, text } = await client.send(`/keys/${id}/external-id`, {
    cookie,
    form: { external_id: "" },
  });
  expect(status).toBe(200);
  expect(wordsOf(text)).toContain("Nothing changed: the values were the same already.");
});

describe("A rotated key in its overlap", () => {
  test("says on its page and in lists that it ends, and leads to the key that replaced it", async () => {
    const email = "rotated@example.org";
    const key = await admin.issue({ email });
    await client.send(`/keys/${key.id}/rotate`, { cookie, form: { overlap_days: "2" } });
    const { text } = await client.send(`/keys/${key.id}`, { cookie });
    const [today, end] = [0, 2].map((days) =>
      new Date(admin.clock.nowMs() + days * DAY_MS).toISOString().slice(0, 10),
    );
    expect(wordsOf(text)).toContain(`Rotated on ${today}: this key ends on ${end}.`);
    const [, replacement] =
      /href="\/console\/keys\/(key_\w+)">Show the key that replaced it/.exec(text) ?? [];
    expect(text).not.toContain("notice good");
    const { text: list } = await client.send(`/keys?account=${email}`, { cookie });
    expect(wordsOf(list)).toContain("active rotated");
    const of = await client.send(`/keys/${replacement}`, { cookie });
    expect(wordsOf(of.text)).toContain("The key works: it is active");
  });

  test("still ends when its license is renewed, and says so before and after", async () => {
    const key = await admin.issue();
    await client.send(`/keys/${key.id}/rotate`, { cookie, form: { overlap_days: "2" } });
    const end = new Date(admin.clock.nowMs() + 2 * DAY_MS).toISOString().slice(0, 10);
    const sentence = `This key still ends on ${end}; the key that replaced it is renewed.`;
    const { text } = await client.send(`/keys/${key.id}?open=renew`, { cookie });
    expect(wordsOf(text)).toContain(sentence);
    const { location } = await client.send(`/keys/${key.id}/renew`, {
      cookie,
      form: { last_day: "2040-01-01", shorten: "yes" },
    });
    const after = await client.send(location?.replace("/console", "") ?? "", { cookie });
    expect(wordsOf(after.text)).toContain(`2040-01-01 23:59. ${sentence}`);
  });
});

test("A page says after a change only the change and whether the key works", async () => {
  const key = await admin.issue({ tier: "free" });
  for (const action of ["suspend", "resume"])
    await client.send(`/keys/${key.id}/${action}`, { cookie, form: { reason: "demo" } });
  const { location } = await client.send(`/keys/${key.id}/tier`, { cookie, form: { tier: "research" } });
  const { text } = await client.send(location?.replace("/console", "") ?? "", { cookie });
  const [, notice = ""] = /notice good"[^>]*>(.*?)<\/div>/.exec(text) ?? [];
  expect(wordsOf(notice)).toContain("tier: free → research.");
  expect(wordsOf(notice)).toContain("The key works");
  expect(wordsOf(notice)).not.toContain("demo");
});

test("A key for an e-mail with an account says which licenses the account has now", async () => {
  const email = "twice@example.org";
  const issue = (tier: string) =>
    client.send("/keys/issue", { cookie, form: { email, tier, mode: "live", never: "yes" } });
  expect((await issue("free")).text).not.toContain("existing account");
  const { text } = await issue("commercial");
  expect(wordsOf(text)).toContain(
    "Added to an existing account, which now has 2 licenses: commercial, free. Show the account",
  );
  expect(text).toMatch(/<a href="\/console\/accounts\/usr_\w+">Show the account/);
});

test("A key that replaces another names it in the message for the customer, and its account, tier and expiry", async () => {
  const key = await admin.issue({ email: "lost@example.org", expiresAt: NEVER_EXPIRES });
  await client.send(`/keys/${key.id}/revoke`, { cookie, form: { repeat: key.apiKey.slice(-4) } });
  const { text } = await client.send(`/keys/${key.id}/replace`, { cookie, form: {} });
  const hint = `svc_live_${key.apiKey.slice(9, 13)}…${key.apiKey.slice(-4)}`;
  expect(text).toContain(`; it replaces your key ${hint}, which no longer works)`);
  const [, issued = ""] = wordsOf(text).split("What was issued");
  for (const part of ["lost@example.org", "research, live", "Expires never"]) expect(issued).toContain(part);
});

test("a page that says that a key works says when its quota runs out, and how far that day is", async () => {
  const key = await admin.issue();
  const tomorrow = toDay(new Date(admin.clock.nowMs() + DAY_MS));
  await admin.database.query(
    (sql) => sql`
      insert into figure_runs_out (key_id, day) values (${uuidOf(key)}::uuid, ${tomorrow}::date)`,
  );
  const text = wordsOf((await client.send(`/keys/${key.id}`, { cookie })).text);
  expect(text).toContain(`is not used up. At this rate it runs out on ${tomorrow}, tomorrow.`);
  expect(text).toContain(`Runs out ${tomorrow}, tomorrow`);
});

test("A form counts its wrong fields", async () => {
  const key = await admin.issue();
  const wrong = async (form: Record<string, string>) =>
    wordsOf((await client.send(`/keys/${key.id}/machines`, { cookie, form })).text);
  expect(await wrong({ max_machines: "x" })).toContain("Nothing was changed: correct the marked field.");
  expect(await wrong({ max_machines: "x", seat_minutes: "x" })).toContain("correct the 2 marked fields.");
});

test("The page of an account leads to the form of a tier, and repeats no e-mail as a name", async () => {
  const email = "nameless@example.org";
  const key = await admin.issue({ email });
  const { text } = await client.send(`/accounts/${key.userId}`, { cookie });
  const opened = `/console/licenses/${toId("lic", key.licenseUuid)}?open=tier&amp;from=%2Faccounts%2F${key.userId}#tier-form`;
  expect(text).toContain(`<a href="${opened}">Change tier</a>`);
  expect(wordsOf(text)).toContain("Name none Organization");
  const viewer = await client.logIn("viewer");
  const read = await client.send(`/accounts/${key.userId}`, { cookie: viewer.cookie });
  expect(read.text).not.toContain("Change tier");
  await client.send(`/keys/${key.id}/revoke`, { cookie, form: { repeat: key.apiKey.slice(-4) } });
  expect((await client.send(`/accounts/${key.userId}`, { cookie })).text).not.toContain("Change tier");
  const erasure = await client.send(`/accounts/${key.userId}/erasure`, { cookie });
  expect(wordsOf(erasure.text)).toContain(" Name none ");
  expect(wordsOf(erasure.text)).toMatch(
    / rows of the audit log , and those of this erasure, with their reasons/,
  );
});

test("A license with imported use shows the days apart from the rest, and the form of its tier names the tiers that it is too much for", async () => {
  const key = await admin.issue({ tier: "enterprise" });
  const { database } = admin;
  const [{ license } = { license: "" }] = await database.query<{ license: string }>(
    (sql) => sql`select license_id as license from keys where id = ${uuidOf(key)}::uuid`,
  );
  const month = `${toDay(admin.clock.now()).slice(0, 7)}-01`;
  await database.query(
    (sql) => sql`
      insert into usage (license_id, month, used, by_day)
      values (${license}::uuid, ${month}::date, 100000, '{7, 20}')`,
  );
  const { text } = await client.send(`/licenses/${toId("lic", key.licenseUuid)}`, { cookie });
  const words = wordsOf(text);
  expect(words).toContain(" 27 inferences");
  expect(words).not.toMatch(/inferences (of|without)/);
  expect(words).toContain("99,973 more were imported without a day: 100,000 in all.");
  expect(words.match(/quota of the month: unlimited → used up \(100,000 used\)/g)).toHaveLength(2);
  const form = { monthly_limit: "200000", never: "yes" };
  expect((await client.send(`/keys/${key.id}/limit`, { cookie, form })).status).toBe(303);
  expect((await client.send(`/keys/${key.id}`, { cookie })).text).not.toContain("used up (");
});

test("The page of a key says how many texts of events its license stored today, and since when texts are left out", async () => {
  const key = await admin.issue();
  const page = async () => wordsOf((await client.send(`/keys/${key.id}`, { cookie })).text);
  const send = async (bytes: number) => {
    const { licenseUuid } = key;
    const receivedAtMs = admin.clock.now().getTime();
    const event = usageEvent({ licenseUuid, errorMessage: "x".repeat(bytes), receivedAtMs });
    const textBounds = { ...MUCH_ROOM, licenseBytes: 2_000 };
    await commitEvents(admin.database, [event], { processUuid: newUuid(), textBounds, deadlineMs: 10_000 });
  };
  expect(await page()).toContain("Texts of events today none");
  await send(1_500);
  expect(await page()).toContain("Texts of events today 1.5 kB");
  await send(1_500);
  expect(await page()).toContain("Texts of events today left out: there was no more room");
});
