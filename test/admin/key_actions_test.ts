/** What the page of a key says, and what its actions change. `key_pages_test.ts` has sizes, states and new keys. */
import { beforeAll, describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { DAY_MS, toDay } from "../../src/base/calendar.ts";
import { toId } from "../../src/base/ids.ts";
import { findKey, hashApiKey, type IssuedKey } from "../../src/licensing/keys/mod.ts";
import type { Role } from "../../src/operators/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { uuidOf } from "../support/keys.ts";
import { placeMachine, setPlaces } from "../support/machines.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { issueRevoked, issueSuspended } from "./sample_requests.ts";
import { attributesOf, HOSTILE, linkTo, mainOf, textsOf } from "./texts_of.ts";

// At noon, so that the day is the same during the tests.
const admin = useAdmin({ clock: createTestClock("2026-11-22T12:00:00Z") });
const client = createConsoleClient(admin);
let cookies: Readonly<Record<Role, string>>;
beforeAll(async () => {
  cookies = {
    viewer: (await client.logIn("viewer")).cookie,
    editor: (await client.logIn("editor", "emil")).cookie,
    admin: (await client.logIn("admin", "olga")).cookie,
  };
});

const find = (key: IssuedKey) => findKey(admin.database, { uuid: uuidOf(key) }, { now: admin.clock.now() });
const open = async ({ id }: Pick<IssuedKey, "id">, role: Role = "editor", query = "") =>
  (await client.send(`/keys/${id}${query}`, { cookie: cookies[role] })).text;
const change = (key: IssuedKey, action: string, form: Record<string, string> = {}, role: Role = "admin") =>
  client.submit(`/keys/${key.id}/${action}`, { cookie: cookies[role], form });
const noticeOf = (text: string) => textsOf(text, ".notice").join(" ");
const inDays = (days: number) => new Date(admin.clock.nowMs() + days * DAY_MS);

test("The page of a key shows its refusals and its history, and leads to its use by day, with hostile texts as text", async () => {
  const text = `${HOSTILE}\u202e`;
  const expiresAt = inDays(12.5);
  const key = await admin.issue({ tier: "free", name: text, organization: text, expiresAt });
  await giveUse(key);
  const { text: page } = await change(key, "suspend", { reason: text });
  // What was done is no warning, and the notice says once that the key is suspended.
  expect(textsOf(page, ".notice.good")[0]).toContain("The key is suspended: it is refused from now on.");
  const main = mainOf(page);
  expect(main.match(/suspended since/g)).toHaveLength(1);
  expect(main).not.toContain("It is suspended.");
  for (const part of [`by olga, in the console; reason: ${HOSTILE}`, "7,100 of 10,000"])
    expect(main).toContain(part);
  expect(textsOf(page, "section[aria-labelledby=refusals] tbody tr")).toEqual([
    expect.stringMatching(/^Too many requests in a minute: .*RATE_LIMIT_EXCEEDED 12 .*3 hours ago/),
    expect.stringMatching(/^The key was suspended\.INVALID_KEY 1 .*3 days ago/),
  ]);
  expect(main).toMatch(/in 1[23] days/);
  const [sees] = textsOf(page, ".sees");
  for (const part of [
    "The API key is invalid or inactive401 INVALID_KEY",
    "Tier free Features batch_inference",
    "Refused lately",
  ])
    expect(sees).toContain(part);
  expect(main.split(`${HOSTILE}\\u202e`)).toHaveLength(1 + 4);
  expect(page).not.toContain("<img");
  expect(textsOf(page, "title")[0]).toStartWith("Key svc_live_");
  const use = (await client.send(linkTo(page, "by day"), { cookie: cookies.viewer })).text;
  const before = (await client.send(linkTo(use, "Month before"), { cookie: cookies.viewer })).text;
  expect(textsOf(before, "h2")).toContain("Use in 2026-10");
  expect(linkTo(before, "Month after")).not.toBe("");
});

/** Gives a key use on days of this month, a last use, and refusals. */
async function giveUse(key: IssuedKey): Promise<void> {
  const byDay = Array.from({ length: 20 }, (_, day) => day * 37);
  const used = byDay.reduce((a, b) => a + b, 0);
  const now = admin.clock.now();
  await admin.database.query(
    (sql) => sql`
      with used as (
        insert into usage (license_id, month, used, by_day)
        values (${key.licenseUuid}::uuid, '2026-11-01', ${used + 70}::bigint, ${`{${byDay.join(",")}}`}::text::bigint[])
      ),
      refused as (
        insert into refusals (key_id, code, reason, last_at, count)
        values (${uuidOf(key)}::uuid, 'RATE_LIMIT_EXCEEDED', '', ${now}::timestamptz - interval '3 hours', 12),
               (${uuidOf(key)}::uuid, 'INVALID_KEY', 'suspended', ${now}::timestamptz - interval '3 days', 1)
      )
      update keys set last_used_at = ${now}::timestamptz - interval '5 minutes' where id = ${uuidOf(key)}::uuid`,
  );
}

describe("The actions of a key", () => {
  test("stand in groups, those that end the key apart", async () => {
    const text = await open(await admin.issue(), "admin");
    const groups = ["Help the customer", "Change the license", "Stop the key"];
    expect(textsOf(text, ".changes > section > h2")).toEqual(groups);
    expect(textsOf(text.split(">Stop the key<")[1] ?? "", ".action > summary")).toEqual([
      "Suspend…",
      "Revoke…",
    ]);
  });

  test("have a Cancel that leads back to the page, and none changes a value by itself", async () => {
    const key = await admin.issue();
    const text = await open(key, "admin", "?open=limit");
    expect(linkTo(text.split('id="limit-form"')[1] ?? "", "Cancel")).toStartWith(`/keys/${key.id}`);
    expect(textsOf(text, "#limit-form")[0]).toContain(
      "Used: 0. The tier's limit: 50,000 a month. At 0 or less the key is refused.",
    );
    // Sent unchanged, the tier's limit must not become the license's own.
    expect(attributesOf(text, "#limit-monthly_limit", "name")).toEqual(["monthly_limit"]);
    expect(attributesOf(text, "#limit-monthly_limit", "value")).toEqual([]);
  });

  test("suspend and resume: the notice leads from one to the other, and both are in the audit log", async () => {
    const key = await admin.issue();
    const suspended = await change(key, "suspend", { reason: "unpaid" }, "editor");
    expect(mainOf(suspended.text)).toContain("The service refuses this key.");
    expect(linkTo(suspended.text, "Resume it")).toBe(`/keys/${key.id}?open=resume#resume-form`);
    const resumed = await change(key, "resume", {}, "editor");
    expect(noticeOf(resumed.text)).toContain("state: suspended → active. The key is resumed.");
    const [last] = await listAudit(admin.database, { keyUuid: uuidOf(key), limit: 1 });
    expect(last).toMatchObject({ action: "key.resume", actor: "operator:emil" });
    expect(admin.forgotten.slice(-2)).toEqual([key.licenseUuid, key.licenseUuid]);
  });

  test("change expiry, tier, limits, machines and external id of the license, and say from what to what", async () => {
    const key = await admin.issue({ expiresAt: new Date("2026-12-01T00:00:00Z") });
    expect(attributesOf(await open(key), "#renew-last_day", "value")).toEqual(["2027-12-01"]);
    for (const [action, form, said] of [
      [
        "renew",
        { last_day: "2027-12-01" },
        "expiry: 2026-12-01 00:00 → 2027-12-01 23:59. The change applies to all keys of the license: 1 that is not revoked.",
      ],
      [
        "tier",
        { tier: "commercial" },
        "tier: research → commercial. 500,000 a month, of which 0 are used. Features now: batch_inference, streaming, training, calibration, model_export, custom_models, priority_support.",
      ],
      [
        "limit",
        { monthly_limit: "750,000" },
        "monthly limit: the tier's → 750,000. 750,000 a month, of which 0 are used.",
      ],
      ["limit", { monthly_limit: "1\u2009234 567" }, "monthly limit: 750,000 → 1,234,567."],
      ["limit", { monthly_limit: "77" }, "monthly limit: 1,234,567 → 77. 77 a month, of which 0 are used."],
      ["external-id", { external_id: "order 1" }, "The external id is order 1 now."],
    ] as const) {
      const { text } = await change(key, action, form);
      expect(noticeOf(text)).toContain(said);
      // One notice says what has changed and that the key works.
      expect(textsOf(text, ".notice")).toHaveLength(1);
    }
    expect(await find(key)).toMatchObject({
      tier: "commercial",
      monthlyLimit: 77,
      externalId: "order 1",
      expiresAt: new Date("2027-12-01T23:59:59Z"),
    });
    const without = await change(key, "limit", { monthly_limit: "" });
    expect(noticeOf(without.text)).toContain("monthly limit: 77 → the tier's. 500,000 a month");
    expect(await find(key)).toMatchObject({ monthlyLimit: 500_000 });
    expect(textsOf(without.text, ".facts dd")).toContain("not counted");
    const places = await change(key, "machines", { max_machines: "30", seat_minutes: "15" });
    expect(noticeOf(places.text)).toContain("machine limit: none → 30; seat minutes: none → 15.");
    expect(textsOf(places.text, ".facts dd")).toContain("30 floating seats of 15 minutes");
    expect(await find(key)).toMatchObject({ maxMachines: 30, seatMinutes: 15 });
    const { text: account } = await client.send(`/accounts/${key.userId}`, { cookie: cookies.viewer });
    expect(account).toContain("30 floating seats of 15 minutes");
    const same = await change(key, "external-id", { external_id: "order 1" });
    expect(noticeOf(same.text)).toContain("Nothing changed: the values were the same already.");
    const removed = await change(key, "external-id", { external_id: "" });
    expect(noticeOf(removed.text)).toContain("The external id is removed now.");
  });

  test("revoke a key after its last four characters were typed, and its form names it", async () => {
    const key = await admin.issue();
    const last4 = key.apiKey.slice(-4);
    const [form] = textsOf(await open(key, "admin"), "#revoke-form");
    expect(form).toStartWith(`Revoke …${last4}`);
    expect(form).toContain(`Type the last four characters to confirm: ${last4}`);
    const { text } = await change(key, "revoke", { repeat: last4 });
    expect(noticeOf(text)).toContain("The key is revoked for good.");
    expect(await find(key)).toMatchObject({ state: "revoked" });
  });

  test("that end a key say before and after what goes on working: signed licenses, places and the last use", async () => {
    const key = await admin.issue({ maxMachines: 3 });
    for (const [fingerprint, days] of Object.entries({ "workstation-1": 30, "workstation-2": 90 })) {
      const body = { fingerprint, days };
      expect((await admin.call("POST", `/keys/${key.id}/license`, { body })).status).toBe(201);
    }
    const last = toDay(new Date(admin.clock.nowMs() + 90 * DAY_MS));
    const stays = [
      `2 signed licenses stay valid without a network, the last until ${last}.`,
      "Machines keep their places: 2 of 3 are taken.",
    ].join(" ");
    const files = `/licenses/${toId("lic", key.licenseUuid)}#files`;
    const page = await open(key, "admin");
    for (const action of ["suspend", "revoke", "rotate"]) {
      expect(textsOf(page, `#${action}-form`)[0]).toContain(`Last used: never. ${stays}`);
      expect(attributesOf(page, `#${action}-form p a`, "href")).toEqual([`/console${files}`]);
    }
    const rotated = await change(key, "rotate", { overlap_days: "2" });
    expect(mainOf(rotated.text)).toContain(`Of the old key: ${stays}`);
    expect(linkTo(rotated.text, "Signed licenses that still work")).toBe(files);
    expect(noticeOf((await change(key, "suspend")).text)).toContain(stays);
    const revoked = await change(key, "revoke", { repeat: key.apiKey.slice(-4) });
    expect(noticeOf(revoked.text)).toContain(`The key is revoked for good. ${stays}`);
    const without = await open(await admin.issue(), "admin");
    expect(textsOf(without, "#revoke-form")[0]).toContain("Last used: never.");
    expect(textsOf(without, "#revoke-form")[0]).not.toMatch(/stay|places/);
  });

  test("are claimed by no address alone", async () => {
    const key = await admin.issue();
    for (const done of ["revoke", `req_${"0".repeat(32)}`, "same", ""]) {
      const main = mainOf(await open(key, "viewer", `?done=${done}`));
      expect(main).toContain("The key works");
      expect(main).not.toMatch(/→|revoked for good|Nothing changed/);
    }
  });

  test("stay open when they are refused, with the error at its field and the entered values", async () => {
    const key = await admin.issue();
    const last4 = key.apiKey.slice(-4);
    for (const [action, field, wrong, error] of [
      ["renew", "last_day", "2001-01-01", "the expiry lies in the past"],
      ["limit", "monthly_limit", "many", "It must be a whole number"],
      ["machines", "max_machines", "0", "It must be a whole number from 1 to 1000000"],
      ["machines", "seat_minutes", "5", "seat minutes need a machine limit"],
      ["rotate", "overlap_days", "-1", "It must be a whole number from 0 to 3650"],
      ["license", "days", "0", "It must be a whole number from 1 to 3650"],
      ["revoke", "repeat", "0", `It must be ${last4}`],
    ] as const) {
      const { status, text } = await change(key, action, { [field]: wrong, reason: HOSTILE });
      expect([action, status]).toEqual([action, 400]);
      expect(textsOf(text, `#${action} .error`).join()).toContain(error);
      expect(attributesOf(text, `#${action}-${field}`, "value")).toEqual([wrong]);
      expect(attributesOf(text, `#${action}-reason`, "value")).toEqual([HOSTILE]);
      expect(attributesOf(text, ".action[open]", "id")).toEqual([action]);
    }
    expect(await find(key)).toMatchObject({ state: "active" });
  });

  test("say why they are refused if somebody else made them impossible, and only what is possible is left", async () => {
    const key = await issueRevoked(admin);
    const { status, text } = await change(key, "suspend", {}, "editor");
    expect(status).toBe(409);
    expect(textsOf(text, "[role=alert]")[0]).toStartWith("Cannot suspend key:");
    expect(textsOf(text, ".action > summary, .opens")).toEqual([
      "Replace the key…",
      "Change external id…",
      "Move to another account…",
    ]);
  });
});

describe("A new key", () => {
  test("of a rotation is shown with the old one's end, and a reload leads to its page", async () => {
    const key = await admin.issue();
    const { text } = await change(key, "rotate", { overlap_days: "2", reason: "yearly" }, "editor");
    const [apiKey = ""] = textsOf(text, "#new-key");
    const by = { now: admin.clock.now() };
    const made = await findKey(admin.database, { hash: hashApiKey(apiKey) }, by);
    expect(await find(key)).toMatchObject({ replacedBy: made?.id });
    const [message] = textsOf(text, "#message");
    expect(message).toContain(apiKey);
    expect(message).toMatch(/it replaces your key svc_live_.{4}….{4}, which works until \d{4}-\d\d-\d\dT/);
    const [reload = ""] = attributesOf(text, "[data-reload]", "data-reload");
    const again = await client.send(reload.replace("/console", ""), { cookie: cookies.editor });
    expect(textsOf(again.text, "title")[0]).toStartWith(`Key ${made?.hint}: `);
    expect(again.text).toContain("It is not shown again: rotate the key, or renew the token, for another.");
    const [last] = await listAudit(admin.database, { keyUuid: uuidOf(key), limit: 1 });
    expect(last).toMatchObject({ action: "key.rotate", reason: "yearly" });
    expect(linkTo(await open(key), "Show the key that replaced it")).toBe(`/keys/${made?.id}`);
  });

  test("of a rotation says before whom no overlap stops, and how many machines hold places", async () => {
    const key = await admin.issue({ maxMachines: 3 });
    const hint = async () => textsOf(await open(key, "editor", "?open=rotate"), "#rotate form .hint")[0];
    expect(await hint()).toStartWith(
      "0 ends the old key at once: all programs that use it are refused until they have the new one. 7 days end it on",
    );
    for (const name of ["one", "two"])
      await placeMachine(admin.database, { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) }, name);
    expect(await hint()).toStartWith(
      "0 ends the old key at once: all programs that use it (2 machines hold places) are refused until",
    );
  });

  test("of a rotation without an overlap, or for an expired license, is announced as it is now", async () => {
    const key = await admin.issue();
    const { text } = await change(key, "rotate", { overlap_days: "0" }, "editor");
    const [message] = textsOf(text, "#message");
    expect(message).toMatch(/it replaces your key svc_live_.{4}….{4}, which no longer works\)/);

    const revoked = await issueRevoked(admin);
    await admin.database.query(
      (sql) => sql`
        update licenses set expires_at = '2026-01-31T23:59:59Z' where id = ${revoked.licenseUuid}::uuid`,
    );
    const replaced = await change(revoked, "replace", {}, "editor");
    expect(textsOf(replaced.text, "#message")[0]).toContain(
      "; it expired on 2026-01-31; it replaces your key",
    );
  });

  test("in place of a revoked one has its license, and is shown with a message", async () => {
    const key = await issueRevoked(admin, { mode: "test", externalId: "order-77", monthlyLimit: 1_234 });
    const page = await open(key);
    expect(page).not.toContain("Issue a new key");
    expect(linkTo(page, "Replace the key")).toBe(`/keys/${key.id}?open=replace#replace-form`);
    const { text } = await change(key, "replace", {}, "editor");
    const [apiKey = ""] = textsOf(text, "#new-key");
    expect(textsOf(text, "#message")[0]).toContain(apiKey);
    const by = { now: admin.clock.now() };
    const made = await findKey(admin.database, { hash: hashApiKey(apiKey) }, by);
    expect(made).toMatchObject({ mode: "test", externalId: "order-77", monthlyLimit: 1_234 });
    expect(linkTo(await open(key), "Show the key that replaced it")).toBe(`/keys/${made?.id}`);
  });
});

describe("The form of a license file", () => {
  test("says which fingerprint it needs if the license counts machines", async () => {
    const key = await admin.issue();
    await setPlaces(admin.database, key.licenseUuid, { maxMachines: 2 });
    const { status, text } = await change(key, "license", { days: "30" }, "editor");
    expect(status).toBe(400);
    expect(textsOf(text, "#license .notice")[0]).toContain("the license counts machines");
    const error = textsOf(text, "#license-fingerprint-error");
    expect(error).toEqual(["It must be 8 to 200 printable ASCII characters"]);
  });

  test("says until when the file is valid and why, and refuses more days than are left", async () => {
    const key = await admin.issue({ expiresAt: inDays(6) });
    const ends = toDay(inDays(6));
    const form = await open(key, "editor", "?open=license");
    expect(textsOf(form, "#license form")[0]).toContain(
      `With 6 days (the most) the file would be valid until ${ends}, because the license ends on ${ends}.`,
    );
    expect(attributesOf(form, "#license-days", "value")).toEqual(["6"]);
    const { text } = await change(key, "license", { days: "365" }, "editor");
    expect(textsOf(text, "#license-days-error")[0]).toStartWith(
      `It must be at most 6: the license ends on ${ends}`,
    );
    const renew = linkTo(text, "Renew the license for a longer file");
    expect(renew).toBe(`/keys/${key.id}?open=renew#renew-form`);
  });

  test("says before that all places are taken, and what frees one", async () => {
    const key = await admin.issue({ maxMachines: 2 });
    const license = { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) };
    for (const action of ["license", "bundle"]) {
      const free = textsOf(await open(key, "editor", `?open=${action}`), `#${action} form`)[0];
      expect(free).not.toContain("places are taken");
    }
    await placeMachine(admin.database, license, "one");
    await placeMachine(admin.database, license, "two");
    for (const action of ["license", "bundle"]) {
      const page = await open(key, "editor", `?open=${action}`);
      expect(textsOf(page, `#${action} form p`)[0]).toBe(
        "All 2 places are taken. Only a machine that holds a place gets a file. For another machine release a machine or change the machine limit first.",
      );
      expect(linkTo(page, "release a machine")).toBe(`/machines?license=${toId("lic", key.licenseUuid)}`);
      expect(linkTo(page, "change the machine limit")).toBe(`/keys/${key.id}?open=machines#machines-form`);
    }
  });

  test("says before that the file starts the term of a license, and when the license ends then", async () => {
    const term = { termDays: 30, latestStart: inDays(90) };
    const key = await admin.issue({ term, expiresAt: inDays(120) });
    const form = await open(key, "editor", "?open=license");
    const ends = toDay(inDays(30));
    const [text = ""] = textsOf(form, "#license form");
    expect(text).toContain(
      `With 30 days (the most) the file would be valid until ${ends}, because the license ends on`,
    );
    expect(text).toContain(`this file starts its term: the license then ends on ${ends}.`);
    expect(await find(key)).toMatchObject({ startedAt: null });
    const { status } = await change(key, "license", { days: "30" }, "editor");
    expect(status).toBe(200);
    const after = await find(key);
    expect(after?.startedAt).not.toBeNull();
    expect(toDay(after?.licenseExpiresAt ?? new Date(0))).toBe(ends);
    expect(await open(key, "editor", "?open=license")).not.toContain("starts its term");
  });

  test("leads to the offline days of the license, if these bound the file", async () => {
    const key = await admin.issue({ expiresAt: inDays(90), maxOfflineDays: 14 });
    const form = await open(key, "editor", "?open=license");
    expect(textsOf(form, "#license form")[0]).toContain("because the license has 14 offline days.");
    expect(linkTo(form, "Change them for a longer file")).toBe(`/keys/${key.id}?open=offline#offline-form`);
    const { status, text } = await change(key, "license", { days: "15" }, "editor");
    expect([status, textsOf(text, "#license-days-error")]).toEqual([
      400,
      ["It must be at most 14: the license has 14 offline days"],
    ]);
    await change(key, "offline", { max_offline_days: "0" }, "editor");
    expect(textsOf(await open(key, "editor", "?open=license"), "#license form")[0]).toContain(
      "The license is not signed for use without a network.",
    );
  });

  test("is offered after a renewal", async () => {
    const key = await admin.issue({ expiresAt: inDays(30) });
    const { text } = await change(key, "renew", { last_day: toDay(inDays(400)) }, "editor");
    const [notice = ""] = text.match(/<div class="notice good".*?<\/div>/s) ?? [];
    expect(linkTo(notice, "Export license file")).toBe("?open=license#license-form");
  });
});

test("Each obstacle has its way out", async () => {
  const used = await admin.issue({ monthlyLimit: 0 });
  const usedUp = await open(used);
  expect(mainOf(usedUp)).toContain("The quota of the month is used up; it resets on 2026-12-01.");
  expect(linkTo(usedUp, "Change the limit")).toBe(`/keys/${used.id}?open=limit#limit-form`);
  const expired = await admin.issue({ expiresAt: new Date(admin.clock.nowMs() + 30_000) });
  admin.clock.advance(31_000);
  expect(linkTo(await open(expired), "Renew the license")).toBe(`/keys/${expired.id}?open=renew#renew-form`);
  const [proposed = ""] = attributesOf(await open(expired), "#renew-last_day", "value");
  expect(mainOf((await change(expired, "renew", { last_day: proposed })).text)).toContain("The key works");
  const suspended = await issueSuspended(admin);
  expect(linkTo(await open(suspended), "Resume it")).toBe(`/keys/${suspended.id}?open=resume#resume-form`);
});

test("An unknown key has a page that says so", async () => {
  for (const id of [`key_${"0".repeat(32)}`, "key_0", "x"]) {
    const { status, text } = await client.send(`/keys/${id}`, { cookie: cookies.viewer });
    expect([id, status]).toEqual([id, 404]);
    expect(textsOf(text, "[role=alert]")[0]).toStartWith("Cannot show key:");
  }
});
