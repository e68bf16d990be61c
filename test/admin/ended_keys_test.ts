/**
 * Whoever steals a session ends at most ten keys an hour with it, and signs or renews nothing for long: more needs a login
 * of the last five minutes. The hour counts for all sessions and processes of the operator together.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { NEVER_EXPIRES, toTimestamp } from "../../src/base/calendar.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseSigner } from "../../src/licensing/signed_licenses/mod.ts";
import { startAdmin, type TestAdmin } from "../support/admin.ts";
import { BRAND } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { openSecrets } from "../support/secrets.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";

const MINUTE_MS = 60_000;
/** So old a proof is not fresh. */
const OLD_MS = 5 * MINUTE_MS + 1;
const MANY =
  "Only an operator who logged in within the last five minutes may end more than 10 keys and places of machines within an hour";

const admin = useAdmin();
const client = createConsoleClient(admin);
const others: TestAdmin[] = [];
afterAll(async () => {
  for (const each of others) await each.close();
});

let operators = 0;
/** Logs an operator in, by default a new one, so long ago that the proof is old. */
async function oldLogin(name = `keeper-${++operators}`, at = client) {
  const { cookie } = await at.logIn("admin", name);
  admin.clock.advance(OLD_MS);
  return { name, cookie };
}

async function issueMany(count: number): Promise<IssuedKey[]> {
  const keys: IssuedKey[] = [];
  for (let n = 0; n < count; n++) keys.push(await admin.issue({ tier: "enterprise" }));
  return keys;
}

type Sender = Pick<ReturnType<typeof createConsoleClient>, "send">;

const revoke = (key: IssuedKey, cookie: string, by: Sender = client) =>
  by.send(`/keys/${key.id}/revoke`, {
    cookie,
    form: { repeat: key.apiKey.slice(-4), reason: "leaked <b>" },
  });

const countRevoked = async (keys: readonly IssuedKey[]) => {
  const states = await Promise.all(
    keys.map(async ({ id }) => (await admin.call("GET", `/keys/${id}`)).body.state),
  );
  return states.filter((state) => state === "revoked").length;
};

/** Each of so many revocations, one after the other, and what it was answered with. */
async function revokeAll(keys: readonly IssuedKey[], cookie: string): Promise<number[]> {
  const statuses: number[] = [];
  for (const key of keys) statuses.push((await revoke(key, cookie)).status);
  return statuses;
}

describe("A session with an old proof", () => {
  test("revokes ten keys, and is refused the eleventh one, which stays as it is", async () => {
    const keys = await issueMany(11);
    const { name, cookie } = await oldLogin();

    expect(await revokeAll(keys.slice(0, 10), cookie)).toEqual(Array(10).fill(303));
    const [last] = keys.slice(10) as [IssuedKey];
    const refused = await revoke(last, cookie);

    expect(refused.status).toBe(403);
    expect(refused.text).toContain(MANY);
    expect(refused.text).toMatch(/<details [^>]*id="revoke" open=""/);
    expect(refused.text).toContain('value="leaked &lt;b&gt;"');
    const back = encodeURIComponent(`/console/keys/${last.id}?open=revoke#revoke-form`);
    expect(refused.text).toContain(`<a href="/console/enter?fresh=1&amp;to=${back}">Log in again</a>`);
    expect(await countRevoked(keys)).toBe(10);

    const { cookie: fresh } = await client.logIn("admin", name);
    expect((await revoke(last, fresh)).status).toBe(303);
    expect(await countRevoked(keys)).toBe(11);
  });

  test("is refused after more keys than ten were ended with a fresh one, until an hour is over", async () => {
    const keys = await issueMany(14);
    const name = `keeper-${++operators}`;
    const { cookie } = await client.logIn("admin", name);
    expect(await revokeAll(keys.slice(0, 12), cookie)).toEqual(Array(12).fill(303));

    admin.clock.advance(OLD_MS);
    expect((await revoke(keys[12] as IssuedKey, cookie)).status).toBe(403);

    admin.clock.advance(55 * MINUTE_MS);
    const later = await oldLogin(name);
    expect((await revoke(keys[12] as IssuedKey, later.cookie)).status).toBe(303);
  });

  test("shares the ten with every other session of the operator, in other processes, too, however they race", async () => {
    const keys = await issueMany(30);
    const other = await startAdmin({ on: admin.testDatabase, clock: admin.clock });
    others.push(other);
    const elsewhere = createConsoleClient(other);
    const { name, cookie } = await oldLogin();
    const second = await oldLogin(name);
    const third = await oldLogin(name, elsewhere);

    const answers = await Promise.all(
      keys.map((key, n) =>
        n % 3 === 0
          ? revoke(key, third.cookie, elsewhere)
          : revoke(key, n % 3 === 1 ? cookie : second.cookie),
      ),
    );

    // A listener with too many requests may answer 503. What counts is what was revoked.
    const done = answers.filter(({ status }) => status === 303).length;
    expect(done).toBe(10);
    expect(await countRevoked(keys)).toBe(10);
  });

  test("leaves other operators their own ten", async () => {
    const keys = await issueMany(12);
    const [first, second] = [await oldLogin(), await oldLogin()];
    expect(await revokeAll(keys.slice(0, 10), first.cookie)).toEqual(Array(10).fill(303));
    expect(await revokeAll(keys.slice(10), second.cookie)).toEqual([303, 303]);
  });

  test("rotates with an overlap as often as it likes, and ends ten keys at once by rotation", async () => {
    const keys = await issueMany(12);
    const { cookie } = await oldLogin();
    const rotate = async (key: IssuedKey, days: string) =>
      (await client.send(`/keys/${key.id}/rotate`, { cookie, form: { overlap_days: days } })).status;
    expect(await rotate(keys[11] as IssuedKey, "1")).toBe(200);
    for (const key of keys.slice(0, 10)) expect(await rotate(key, "0")).toBe(200);
    expect(await rotate(keys[10] as IssuedKey, "0")).toBe(403);
    expect((await admin.call("GET", `/keys/${keys[10]?.id}`)).body.replaced_by).toBeNull();
    expect(await rotate(keys[10] as IssuedKey, "1")).toBe(200);
  });

  test("counts the keys of an account that was erased", async () => {
    const email = `${crypto.randomUUID()}@example.org`;
    const { userId } = await admin.issue({ email });
    for (let n = 0; n < 9; n++) await admin.issue({ email });
    const keys = await issueMany(1);
    const { cookie } = await client.logIn("admin", `keeper-${++operators}`);
    const erased = await client.send(`/accounts/${userId}/erasure/erase`, {
      cookie,
      form: { repeat: email },
    });
    expect(erased.status).toBe(303);
    admin.clock.advance(OLD_MS);
    expect((await revoke(keys[0] as IssuedKey, cookie)).status).toBe(403);
  });

  test("counts nothing that was refused for another reason, and no suspension", async () => {
    const keys = await issueMany(12);
    const { cookie } = await oldLogin();
    for (const key of keys) {
      const wrong = await client.send(`/keys/${key.id}/revoke`, { cookie, form: { repeat: "no" } });
      expect(wrong.status).toBe(400);
      expect((await client.send(`/keys/${key.id}/suspend`, { cookie, form: {} })).status).toBe(303);
    }
    expect(await revokeAll(keys.slice(0, 10), cookie)).toEqual(Array(10).fill(303));
  });
});

describe("Many keys at once", () => {
  const IN_A_YEAR = { tier: "enterprise", expiresAt: new Date("2027-12-01T00:00:00Z") } as const;
  const idsOf = (keys: readonly IssuedKey[]) => keys.map(({ id }) => id).join(" ");

  /** Sends the form of an action on many keys: the page says what will change. */
  const show = (
    action: string,
    keys: readonly IssuedKey[],
    { cookie, ...fields }: Readonly<Record<string, string>> & { readonly cookie: string },
  ) => {
    const total = `${keys.length}`;
    const form = { id: idsOf(keys), total, ...(action === "revoke" && { repeat: total }), ...fields };
    return client.send(`/keys/many/${action}`, { cookie, form });
  };

  /** Sends the form of the page that says what will change. */
  function confirm(action: string, text: string, cookie: string) {
    const [, form = ""] = text.split(`action="/console/keys/many/${action}"`);
    const fields = (form.split("</form>")[0] ?? "").matchAll(
      /<input type="hidden" name="(.*?)" value="(.*?)"/g,
    );
    const entries = [...fields].map(([, name = "", value = ""]): [string, string] => [name, value]);
    return client.send(`/keys/many/${action}`, { cookie, form: entries });
  }

  async function expectRefused(answer: { readonly status: number; readonly text: string }, what: string) {
    expect(answer.status).toBe(403);
    expect(answer.text).toContain(what);
    expect(answer.text).toMatch(/<details [^>]*id="(revoke|renew)" open=""/);
    expect(answer.text).toMatch(/fresh=1&amp;to=%2Fconsole%2Fkeys%2Fmany%3Fopen%3D(revoke|renew)%23/);
  }

  test("more than ten are not revoked by an old login, and not one of them; after a new one all are", async () => {
    const keys = await issueMany(11);
    const { name, cookie } = await oldLogin();
    await expectRefused(await show("revoke", keys, { cookie }), MANY);
    expect(await countRevoked(keys)).toBe(0);

    const { cookie: fresh } = await client.logIn("admin", name);
    const shown = await show("revoke", keys, { cookie: fresh });
    expect(shown.status).toBe(200);
    expect((await confirm("revoke", shown.text, fresh)).text).toContain("Revoke: 11 keys done.");
    expect(await countRevoked(keys)).toBe(11);
  });

  test("that were shown to a fresh login are not revoked once it is old", async () => {
    const keys = await issueMany(11);
    const { cookie } = await client.logIn("admin", `keeper-${++operators}`);
    const shown = await show("revoke", keys, { cookie });
    expect(shown.status).toBe(200);
    admin.clock.advance(OLD_MS);
    await expectRefused(await confirm("revoke", shown.text, cookie), MANY);
    expect(await countRevoked(keys)).toBe(0);
  });

  test("count with those that were revoked one by one", async () => {
    const keys = await issueMany(12);
    const { cookie } = await oldLogin();
    await revokeAll(keys.slice(0, 5), cookie);
    await expectRefused(await show("revoke", keys.slice(5, 11), { cookie }), MANY);
    expect(await countRevoked(keys)).toBe(5);

    const shown = await show("revoke", keys.slice(5, 10), { cookie });
    expect((await confirm("revoke", shown.text, cookie)).text).toContain("Revoke: 5 keys done.");
    expect((await revoke(keys[10] as IssuedKey, cookie)).status).toBe(403);
    expect(await countRevoked(keys)).toBe(10);
  });

  test("are suspended by an old login, because that can be undone", async () => {
    const keys = await issueMany(12);
    const { cookie } = await oldLogin();
    const shown = await show("suspend", keys, { cookie });
    expect((await confirm("suspend", shown.text, cookie)).text).toContain("Suspend: 12 keys done.");
  });

  test("are renewed for ever only after a new login", async () => {
    const keys = [await admin.issue(IN_A_YEAR), await admin.issue(IN_A_YEAR)];
    const { name, cookie } = await oldLogin();
    const what = "let a license last for more than ten years";
    await expectRefused(await show("renew", keys, { cookie, term: "never" }), what);
    expect((await show("renew", keys, { cookie, term: "year" })).status).toBe(200);

    const { cookie: fresh } = await client.logIn("admin", name);
    const shown = await show("renew", keys, { cookie: fresh, term: "never" });
    admin.clock.advance(OLD_MS);
    const before = (await admin.call("GET", `/keys/${keys[0]?.id}`)).body;
    await expectRefused(await confirm("renew", shown.text, fresh), what);
    // Whoever claims that the licenses never ended gains nothing: they are not as they were shown.
    const claimed = shown.text.replaceAll(/(key_\w+\.)\d{4}-[^.]+\./g, `$1${toTimestamp(NEVER_EXPIRES)}.`);
    expect(claimed).not.toBe(shown.text);
    expect((await confirm("renew", claimed, fresh)).text).toContain("Renew: 0 licenses done. Failed: 2.");
    expect((await admin.call("GET", `/keys/${keys[0]?.id}`)).body).toEqual(before);
  });
});

describe("A form that asks for what lasts", () => {
  const inDays = (days: number) =>
    new Date(admin.clock.now().getTime() + days * 86_400_000).toISOString().slice(0, 10);

  /** What a form asks for, by name, what it says then, and the same form with what needs no proof. */
  const FORMS: readonly (readonly [
    name: string,
    lasting: () => Record<string, string>,
    usual: () => Record<string, string>,
    what: string,
  ])[] = [
    [
      "renew",
      () => ({ never: "yes" }),
      () => ({ last_day: inDays(3_600) }),
      "let a license last for more than ten years",
    ],
    [
      "renew",
      () => ({ last_day: inDays(3_660) }),
      () => ({ last_day: inDays(400) }),
      "let a license last for more than ten years",
    ],
    [
      "offline",
      () => ({ max_offline_days: "1" }),
      () => ({ max_offline_days: "0" }),
      "let clients have signed licenses for more than the 0 offline days of the tier",
    ],
  ];

  test.each(FORMS)(
    "%s needs a fresh login if it is for ever, and changes nothing without",
    async (name, lasting, usual, what) => {
      const key = await admin.issue({ tier: "research", expiresAt: new Date(`${inDays(30)}T00:00:00Z`) });
      const { name: operator, cookie } = await oldLogin();
      const before = (await admin.call("GET", `/keys/${key.id}`)).body;
      const send = (form: Record<string, string>, as = cookie) =>
        client.send(`/keys/${key.id}/${name}`, { cookie: as, form });

      const refused = await send({ ...lasting(), reason: "kept" });
      expect(refused.status).toBe(403);
      expect(refused.text).toContain(`within the last five minutes may ${what}`);
      expect(refused.text).toContain('value="kept"');
      expect((await admin.call("GET", `/keys/${key.id}`)).body).toEqual(before);
      expect((await send(usual())).status).toBe(303);

      const { cookie: fresh } = await client.logIn("admin", operator);
      expect((await send(lasting(), fresh)).status).toBe(303);
    },
  );

  test("issues a key for ever only after a fresh login, and keeps what was entered", async () => {
    const { name, cookie } = await oldLogin();
    const email = `${crypto.randomUUID()}@example.org`;
    const form = { email, tier: "free", mode: "live", never: "yes" };
    const refused = await client.send("/keys/issue", { cookie, form });
    expect(refused.status).toBe(403);
    expect(refused.text).toContain(`value="${email}"`);
    expect(refused.text).toContain('<a href="/console/enter?fresh=1&amp;to=%2Fconsole%2Fkeys%2Fissue">');
    expect((await admin.call("GET", `/keys?account=${email}`)).status).toBe(404);

    const days = { email, tier: "free", mode: "live", last_day: inDays(30), max_offline_days: "1" };
    expect((await client.send("/keys/issue", { cookie, form: days })).status).toBe(403);

    const { cookie: fresh } = await client.logIn("admin", name);
    expect((await client.send("/keys/issue", { cookie: fresh, form })).status).toBe(200);
  });
});

describe("A signed license", () => {
  const OFFLINE_DAYS = { free: 0, research: 14, commercial: 14, enterprise: 30 };
  let other: TestAdmin;
  beforeAll(async () => {
    const { database } = admin;
    const signing = { database, secrets: openSecrets(), brand: BRAND, publicUrl: undefined };
    const licenseSigner = createLicenseSigner({ ...signing, offlineDays: OFFLINE_DAYS });
    other = await startAdmin({ on: admin.testDatabase, clock: admin.clock, admin: { licenseSigner } });
    others.push(other);
  });

  test.each([
    ["free", 1, 403],
    ["research", 14, 200],
    ["research", 15, 403],
    ["enterprise", 30, 200],
    ["enterprise", 31, 403],
  ] as const)("of tier %s for %d days is answered with %d to an old login", async (tier, days, status) => {
    const there = createConsoleClient(other);
    const key = await admin.issue({ tier });
    const { name, cookie } = await oldLogin(undefined, there);
    const path = `/keys/${key.id}/license`;

    const answer = await there.send(path, { cookie, form: { days: `${days}`, nonce: "kept" } });

    expect(answer.status).toBe(status);
    if (status === 200) return;
    expect(answer.text).toContain(
      `may sign a license for more than the ${OFFLINE_DAYS[tier]} offline days of its tier`,
    );
    expect(answer.text).toContain('value="kept"');
    const history = await listAudit(admin.database, { keyUuid: uuidOf(key) });
    expect(history.map(({ action }) => action)).not.toContain("license.export");
    const { cookie: fresh } = await there.logIn("admin", name);
    expect((await there.send(path, { cookie: fresh, form: { days: `${days}` } })).status).toBe(200);
  });
});
