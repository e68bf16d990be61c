/** Notices by the API, in the console and by commands: the same list, the same changes, the same refusals. */
import { beforeEach, describe, expect, test } from "bun:test";
import { parseId, toId } from "../../src/base/ids.ts";
import { findGuidePage } from "../../src/cli/guide/pages.ts";
import {
  countNotices,
  countOpenNotices,
  KIND_MEANINGS,
  makeNotices,
  STATE_MEANINGS,
} from "../../src/notices/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { readAll } from "../admin/list_kit.ts";
import { inAWeek, makeSampleNotice } from "../admin/sample_requests.ts";
import { attributesOf, linkTo, textsOf } from "../admin/texts_of.ts";
import { useAdmin } from "../support/use.ts";
import { SETTINGS } from "./notices_kit.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
let viewer: string;
let editor: string;
beforeEach(async () => {
  viewer = (await client.logIn("viewer")).cookie;
  editor = (await client.logIn("editor")).cookie;
});

/** Returns what the audit log says about a notice, in order. */
const auditOf = (id: string) =>
  admin.database.query<{ action: string; actor: string; after: Record<string, unknown> }>(
    (sql) => sql`
      select action, split_part(actor, ':', 1) as actor, after from audit where after->>'notice' = ${id} order by id`,
  );

describe("GET /admin/v1/notices", () => {
  test("lists the open notices page by page, and those that meet conditions", async () => {
    const ids = [await makeSampleNotice(admin), await makeSampleNotice(admin), await makeSampleNotice(admin)];
    const rows = await readAll(admin, "/notices?limit=2");
    const listed = rows.map(({ id }) => id);
    expect(listed.filter((id) => ids.includes(String(id)))).toEqual(ids);
    const one = rows.find(({ id }) => id === ids[0]);
    expect(one).toEqual({
      id: ids[0],
      kind: "quota_used",
      state: "open",
      says: expect.stringMatching(
        /^The license of \S+@example\.org \(svc_live_\S+\) has used its quota up: 10 of 10/,
      ),
      user_id: expect.stringMatching(/^usr_/),
      license_id: expect.stringMatching(/^lic_/),
      key_id: expect.stringMatching(/^key_/),
      email: expect.stringContaining("@"),
      true_since: expect.stringMatching(/Z$/),
      made_at: expect.stringMatching(/Z$/),
      facts: expect.objectContaining({ percent: 100, used: 10, limit: 10 }),
      remind_at: null,
      closed_at: null,
      closed_by: null,
      withdrawn_for: null,
    });
    for (const condition of [
      `license=${one?.license_id}`,
      `account=${one?.user_id}`,
      `account=${one?.email}`,
    ])
      expect(await readAll(admin, `/notices?${condition}`)).toEqual([one ?? {}]);
    expect(await readAll(admin, "/notices?kind=updates_end")).toEqual([]);
    const newest = await readAll(admin, "/notices?sort=newest&limit=2");
    expect(newest.map(({ id }) => id)).toEqual(listed.toReversed());
    expect((await admin.call("GET", `/notices/${ids[0]}`)).body).toEqual(one);
  });
});

describe("POST /admin/v1/notices/:id/done and /remind", () => {
  const post = (id: string, action: string, body: object) =>
    admin.call("POST", `/notices/${id}/${action}`, { body });

  test("take a notice from the open ones, once, and write the audit log", async () => {
    const id = await makeSampleNotice(admin);
    const open = async () => (await readAll(admin, "/notices")).some((row) => row.id === id);
    const day = inAWeek(admin);
    const put = { state: "later", remind_at: `${day}T00:00:00Z`, changed: true };
    expect((await post(id, "remind", { on: day, reason: "is away" })).body).toMatchObject(put);
    expect((await post(id, "remind", { on: day })).body).toMatchObject({ ...put, changed: false });
    expect(await open()).toBe(false);
    expect(await readAll(admin, "/notices?state=later")).toContainEqual(expect.objectContaining({ id }));
    admin.clock.advance(7 * 86_400_000);
    expect(await open()).toBe(true);
    const done = { state: "done", closed_by: expect.stringMatching(/^token:/), changed: true };
    expect((await post(id, "done", { reason: "knows" })).body).toMatchObject(done);
    expect((await post(id, "done", {})).body).toMatchObject({ ...done, changed: false });
    expect(await open()).toBe(false);
    expect((await post(id, "remind", { on: inAWeek(admin) })).body).toMatchObject({ code: "CONFLICT" });
    const rows = await auditOf(id);
    expect(rows.map(({ action, actor }) => [action, actor])).toEqual([
      ["notice.make", "service"],
      ["notice.remind", "token"],
      ["notice.done", "token"],
    ]);
    expect(rows[0]?.after).toMatchObject({
      kind: "quota_used",
      state: "open",
      percent: 100,
      used: 10,
      limit: 10,
    });
  });

  test("refuse a day that has passed or lies too far ahead, and an unknown notice, and change nothing", async () => {
    const id = await makeSampleNotice(admin);
    for (const on of ["2026-01-01", "2099-01-01", "tomorrow"])
      expect((await post(id, "remind", { on })).body).toMatchObject({
        code: "INVALID_REQUEST",
        details: [{ field: "on", error: expect.any(String) }],
      });
    const unknown = toId("ntc", "019a0000-0000-7000-8000-000000000000");
    for (const [action, body] of [["done", {}] as const, ["remind", { on: inAWeek(admin) }] as const])
      expect((await post(unknown, action, body)).status).toBe(404);
    expect(await auditOf(id)).toHaveLength(1);
  });

  test("refuse a notice that was withdrawn", async () => {
    const id = await makeSampleNotice(admin);
    await admin.database.query(
      (sql) => sql`
        update notices set state = 'withdrawn', closed_at = now(), withdrawn_for = 'below'
         where id = ${parseId("ntc", id) ?? ""}::uuid`,
    );
    expect((await post(id, "done", {})).body).toMatchObject({
      code: "CONFLICT",
      error: "Cannot mark notice as done: it is withdrawn (it is not true any more, such as after a renewal)",
    });
    expect(await auditOf(id)).toHaveLength(1);
  });
});

test("POST /admin/v1/notices/mute and /unmute change nothing the second time, and the list has what is muted", async () => {
  const { userId, licenseUuid } = await admin.issue();
  const license_id = toId("lic", licenseUuid);
  const post = (verb: string, body: object) => admin.call("POST", `/notices/${verb}`, { body });
  for (const body of [{ account_id: userId }, { license_id }]) {
    expect((await post("mute", body)).body).toEqual({ muted: true, changed: true });
    expect((await post("mute", body)).body).toEqual({ muted: true, changed: false });
  }
  const muted = (await readAll(admin, "/notices/muted?limit=1")).filter((row) => row.user_id === userId);
  expect(muted.map((row) => row.license_id)).toEqual([null, license_id]);
  expect((await post("mute", { account_id: userId, license_id })).body).toMatchObject({
    code: "INVALID_REQUEST",
  });
  expect((await post("mute", {})).body).toMatchObject({ code: "INVALID_REQUEST" });
  expect((await post("unmute", { license_id })).body).toEqual({ muted: false, changed: true });
  expect((await post("unmute", { license_id })).body).toEqual({ muted: false, changed: false });
  const rows = await admin.database.query<{ action: string }>(
    (sql) => sql`
      select action from audit where action like 'notice.%mute' and account_id = ${parseId("usr", userId) ?? ""}::uuid order by id`,
  );
  expect(rows.map(({ action }) => action)).toEqual(["notice.mute", "notice.mute", "notice.unmute"]);
});

/** The whole banner is one sentence about the notice, and what becomes of it. */
const SAYS_DONE =
  /^Marked as done: The license of \S+ \(\S+\) has used its quota up: 10 of 10, .* UTC\. It stays done\.$/;

const LATER_ONES = "It stays done. Later notices of the same end are still made, also after the end.";

describe("The console", () => {
  test("has the newest open notices on Overview, and an editor marks one as done or puts it off", async () => {
    const [first, second] = [await makeSampleNotice(admin), await makeSampleNotice(admin)];
    const { text } = await client.send("/overview", { cookie: editor });
    expect(textsOf(text, "h2")).toContain("Open notices");
    expect(text).toContain(`action="/console/notices/${first}/done"`);
    expect(text).toContain(`/console/notices/${second}?open=remind`);
    expect((await client.send("/overview", { cookie: viewer })).text).not.toContain(`${first}/done`);

    const done = await client.submit(`/notices/${first}/done`, { cookie: editor, form: {} });
    expect(textsOf(done.text, ".notice")[0]).toMatch(SAYS_DONE);
    expect(textsOf(done.text, ".facts")[0]).toContain(
      "done: an operator has marked it as done. It stays done.",
    );
    expect(textsOf(done.text, ".action > summary")).toEqual(["Mute…"]);
    const on = inAWeek(admin);
    const later = await client.submit(`/notices/${second}/remind`, { cookie: editor, form: { on } });
    expect(textsOf(later.text, ".notice")[0]).toMatch(
      new RegExp(
        `^Put off until ${on}: The license of .*\\. It is open again from that day on, if it is still true\\.$`,
      ),
    );
    const list = await client.send("/notices?state=later", { cookie: viewer });
    const [said = ""] = textsOf(later.text, "p > b");
    expect(linkTo(list.text, said.replace(/\. Raise its monthly limit.*/, ""))).toBe(`/notices/${second}`);
  });

  test.each(["/overview", "/notices", "/notices?kind=quota_used"])(
    "leads back to %s after Done and Put off, and names the notice there with a link",
    async (from) => {
      const changes = [
        ["done", {}, SAYS_DONE],
        ["remind", { on: inAWeek(admin) }, /^Put off until \d{4}-\d\d-\d\d: The license of /],
      ] as const;
      for (const [name, fields, says] of changes) {
        const id = await makeSampleNotice(admin);
        const { text: before } = await client.send(from, { cookie: editor });
        expect(before).toContain(`<input type="hidden" name="from" value="${from}"/>`);
        expect(before).toContain(
          `/console/notices/${id}?open=remind&amp;from=${encodeURIComponent(from)}#remind-form`,
        );
        const form = { from, ...fields };
        const sent = await client.send(`/notices/${id}/${name}`, { cookie: editor, form });
        expect(sent.location).toMatch(new RegExp(`^/console${from.replace("?", "\\?")}[?&]done=[\\w-]+$`));
        const { text } = await client.send(sent.location?.replace("/console", "") ?? "", { cookie: editor });
        expect(textsOf(text, ".notice")[0]).toMatch(says);
        expect(attributesOf(text, ".notice.good a", "href")).toContain(`/console/notices/${id}`);
        expect(text).not.toContain(`/notices/${id}/done`);
        expect(textsOf(text, "caption").join()).toContain(from.includes("kind") ? "notice" : "ewest");
      }
    },
  );

  test.each([
    ["license_end", -7, LATER_ONES],
    ["license_end", -1, LATER_ONES],
    ["license_end", 0, "It stays done."],
    ["quota_used", 80, "It stays done. The notice of a larger share is still made."],
    ["quota_used", 100, "It stays done."],
  ])("says what is still made after %s of %d is done, before and afterwards", async (kind, stage, stays) => {
    const id = await makeSampleNotice(admin);
    await admin.database.query(
      (sql) => sql`
        update notices set kind = ${kind}::text, stage = ${stage}::integer where id = ${parseId("ntc", id) ?? ""}::uuid`,
    );
    const { text: before } = await client.send(`/notices/${id}`, { cookie: editor });
    expect(textsOf(before, "#done-form p")[0]).toBe(
      `The notice is not among the open ones any more. ${stays}`,
    );
    const { text } = await client.submit(`/notices/${id}/done`, { cookie: editor, form: {} });
    expect(textsOf(text, ".notice")[0]).toEndWith(`. ${stays}`);
    expect(textsOf(text, ".facts")[0]).toContain(`done: an operator has marked it as done. ${stays} Kind`);
  });

  test("says in both lists that nobody opens a done notice again, and names the notice of each button", async () => {
    const says = (await admin.call("GET", `/notices/${await makeSampleNotice(admin)}`)).body.says as string;
    const email = /[^ ]+@[^ ]+/.exec(says)?.[0];
    for (const path of ["/overview", "/notices"]) {
      const { text } = await client.send(path, { cookie: editor });
      expect(textsOf(text, "p.hint")).toContain(
        "A notice that is done cannot be opened again. To see it again on a day, put it off.",
      );
      expect(text.indexOf("cannot be opened again")).toBeLessThan(text.indexOf("<table"));
      const names = attributesOf(text, "td form [aria-label]", "aria-label");
      expect(names).toContainEqual(expect.stringContaining(`Done: The license of ${email} `));
      expect(names).toContainEqual(expect.stringContaining(`Put off… The license of ${email} `));
      const { text: seen } = await client.send(path, { cookie: viewer });
      expect(seen).not.toContain("cannot be opened again");
    }
  });

  test("leads to no other page than those, and claims no change of somebody else", async () => {
    const id = await makeSampleNotice(admin);
    const form = { from: "/notices?kind=quota_used&state=all" };
    const { location } = await client.send(`/notices/${id}/done`, { cookie: editor, form });
    expect(location).toStartWith(`/console/notices/${id}?done=`);
    const request = location?.split("=")[1] ?? "";
    for (const path of ["/overview", "/notices"])
      expect((await client.send(`${path}?done=${request}`, { cookie: viewer })).text).not.toContain(
        "Marked as done",
      );
  });

  test("proposes to put a notice off for a week", async () => {
    const { text } = await client.send(`/notices/${await makeSampleNotice(admin)}`, { cookie: editor });
    expect(attributesOf(text, "#remind-on", "value")).toEqual([inAWeek(admin)]);
  });

  test("orders notices by the column that it shows, in both lists", async () => {
    await makeSampleNotice(admin);
    admin.clock.advance(60_000);
    await makeSampleNotice(admin);
    for (const path of ["/overview", "/notices"]) {
      const { text } = await client.send(path, { cookie: viewer });
      expect(textsOf(text, "thead th")).toContain("Noticed");
      const times = textsOf(text, 'td[data-label="Noticed"] time');
      expect(times.length).toBeGreaterThan(1);
      expect(times).toEqual(times.toSorted().toReversed());
      expect(new Set(times).size).toBeGreaterThan(1);
    }
  });

  test("mutes the license and the account of a notice, offers what is left to mute, and unmutes them", async () => {
    const id = await makeSampleNotice(admin);
    const notice = (await admin.call("GET", `/notices/${id}`)).body;
    const mute = (of: string) =>
      client.submit(`/notices/${id}/mute`, { cookie: editor, form: { of, reason: "a test" } });
    const offered = (text: string) => attributesOf(text, "#mute-form [name=of]", "value");
    const { text: before } = await client.send(`/notices/${id}`, { cookie: editor });
    expect(offered(before)).toEqual(["license", "account"]);
    expect(before).not.toContain("No notices are made");
    const others = { accountUuid: parseId("usr", String(notice.user_id)) ?? "" };
    await admin.issue({ email: String(notice.email), expiresAt: new Date(admin.clock.nowMs() + 86_460_000) });
    admin.clock.advance(120_000);
    await makeNotices({ database: admin.database, clock: admin.clock, isStopping: () => false }, SETTINGS);
    expect(await countNotices(admin.database, { now: admin.clock.now(), filter: others })).toBe(2);
    await admin.call("POST", `/notices/${id}/remind`, { body: { on: inAWeek(admin) } });
    const { text: open } = await client.send(`/notices/${id}`, { cookie: editor });
    expect(textsOf(open, "#mute-form fieldset label")).toEqual([
      expect.stringMatching(
        new RegExp(`^the license of ${notice.email} with the key svc_live_\\S+ \\(1 open notice\\)$`),
      ),
      `all licenses of ${notice.email} (2 open notices)`,
    ]);
    expect(attributesOf(open, "#mute-form [checked]", "value")).toEqual([]);

    const license = await mute("license");
    expect(textsOf(license.text, ".notice")[0]).toMatch(
      new RegExp(
        `^Muted: the license of ${notice.email} with the key svc_live_\\S+\\. No notice is made for it, and its 1 open ` +
          "notice is withdrawn within ten minutes\\. Unmute ends it, here and on the page Muted\\.$",
      ),
    );
    expect(textsOf(license.text, ".notice b > bdi")).toEqual([String(notice.email)]);
    expect(offered(license.text)).toEqual(["account"]);
    expect(attributesOf(license.text, "#mute-form [checked]", "value")).toEqual(["account"]);
    const form = { of: "account", reason: "a test" };
    const sent = await client.send(`/notices/${id}/mute`, { cookie: editor, form });
    const location = sent.location?.replace("/console", "");
    const account = await client.send(location ?? "", { cookie: editor });
    expect(textsOf(account.text, ".notice")[0]).toStartWith(`Muted: all licenses of ${notice.email}. `);
    expect(textsOf(account.text, ".notice")[0]).toContain("its 2 open notices are withdrawn");
    expect(offered(account.text)).toEqual([]);
    expect(textsOf((await mute("account")).text, ".notice")[0]).toContain("Nothing changed");

    const note =
      /^No notices are made for the (\w+): muted at \d{4}-\d\d-\d\d \d\d:\d\d by operator-\d+, in the console\./;
    const notesOn = async (path: string, cookie = editor) =>
      textsOf((await client.send(path, { cookie })).text, ".told");
    const of = (notes: readonly string[]) => notes.map((text) => note.exec(text)?.[1]);
    expect(of(await notesOn(`/notices/${id}`))).toEqual(["license", "account"]);
    expect(of(await notesOn(`/licenses/${notice.license_id}`))).toEqual(["license", "account"]);
    expect(of(await notesOn(`/accounts/${notice.user_id}`))).toEqual(["account"]);
    expect((await notesOn(`/accounts/${notice.user_id}`))[0]).toEndWith("Unmute");
    expect((await notesOn(`/accounts/${notice.user_id}`, viewer))[0]).toEndWith("console.");

    const rows = async () =>
      textsOf((await client.send("/notices/muted", { cookie: viewer })).text, "tbody tr").filter((row) =>
        row.includes(String(notice.email)),
      );
    expect(await rows()).toEqual([
      expect.stringContaining(String(notice.license_id)),
      expect.stringContaining(" all "),
    ]);
    const { text: shown } = await client.send(`/notices/${id}`, { cookie: editor });
    const named = [...shown.matchAll(/name="of" value="(\w+)"/g)].map(([, value = ""]) => value);
    expect(named).toEqual([String(notice.license_id), String(notice.user_id)]);
    for (const of of named) {
      const form = { of };
      const { text } = await client.submit("/notices/muted/unmute", { cookie: editor, form });
      expect(textsOf(text, ".notice")[0]).toStartWith("Notices are made again");
    }
    expect(await rows()).toEqual([]);
    // The address still names the change, which is no more.
    expect(textsOf((await client.send(location ?? "", { cookie: editor })).text, ".notice")).toEqual([]);
    expect(await notesOn(`/licenses/${notice.license_id}`)).toEqual([]);
    const wrong = await client.submit("/notices/muted/unmute", { cookie: editor, form: { of: id } });
    expect([wrong.status, textsOf(wrong.text, ".notice")[0]]).toEqual([
      400,
      expect.stringContaining("of must be the id of an account or of a license"),
    ]);
  });

  test("refuses a wrong day, and shows the form again", async () => {
    const id = await makeSampleNotice(admin);
    const { status, text } = await client.send(`/notices/${id}/remind`, {
      cookie: editor,
      form: { on: "soon" },
    });
    expect(status).toBe(400);
    expect(textsOf(text, ".error")).not.toEqual([]);
    expect(await auditOf(id)).toHaveLength(1);
  });
});

test("countOpenNotices() counts each kind up to a bound, without those that were put off", async () => {
  const count = (most?: number) =>
    countOpenNotices(admin.database, admin.clock.now(), most === undefined ? {} : { most });
  const [id] = [await makeSampleNotice(admin), await makeSampleNotice(admin), await makeSampleNotice(admin)];
  const before = await count();
  expect(before.quota_used).toBeGreaterThan(2);
  expect(Object.keys(before)).toEqual(Object.keys(KIND_MEANINGS));
  expect((await count(1)).quota_used).toBe(2);
  await admin.call("POST", `/notices/${id}/remind`, { body: { on: inAWeek(admin) } });
  expect(await count()).toEqual({ ...before, quota_used: before.quota_used - 1 });
});

test("The page of the manual has every kind and every state with its meaning", () => {
  const text = findGuidePage("notices")?.text ?? "";
  for (const [word, meaning] of Object.entries({ ...KIND_MEANINGS, ...STATE_MEANINGS }))
    expect(text).toContain(`| \`${word}\` | ${meaning} |`);
});
