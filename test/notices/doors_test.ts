/** Notices by the API, in the console and by commands: the same list, the same changes, the same refusals. */
import { beforeEach, describe, expect, test } from "bun:test";
import { parseId, toId } from "../../src/base/ids.ts";
import { findGuidePage } from "../../src/cli/guide/pages.ts";
import { countOpenNotices, KIND_MEANINGS, STATE_MEANINGS } from "../../src/notices/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { readAll } from "../admin/list_kit.ts";
import { inAWeek, makeSampleNotice } from "../admin/sample_requests.ts";
import { linkTo, textsOf } from "../admin/texts_of.ts";
import { useAdmin } from "../support/use.ts";

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

describe("The console", () => {
  test("has the newest open notices on Overview, and an editor marks one as done or puts it off", async () => {
    const [first, second] = [await makeSampleNotice(admin), await makeSampleNotice(admin)];
    const { text } = await client.send("/overview", { cookie: editor });
    expect(textsOf(text, "h2")).toContain("Needs attention");
    expect(text).toContain(`action="/console/notices/${first}/done"`);
    expect(text).toContain(`/console/notices/${second}?open=remind`);
    expect((await client.send("/overview", { cookie: viewer })).text).not.toContain(`${first}/done`);

    const done = await client.submit(`/notices/${first}/done`, { cookie: editor, form: {} });
    expect(textsOf(done.text, ".notice")[0]).toContain("The notice is done");
    expect(textsOf(done.text, ".action > summary")).toEqual(["Mute…", "Unmute…"]);
    const on = inAWeek(admin);
    const later = await client.submit(`/notices/${second}/remind`, { cookie: editor, form: { on } });
    expect(textsOf(later.text, ".notice")[0]).toContain(
      `it is among the open ones again from ${on}T00:00:00Z on`,
    );
    const list = await client.send("/notices?state=later", { cookie: viewer });
    expect(linkTo(list.text, textsOf(later.text, "p > b")[0]?.replace(/\.$/, "") ?? "")).toBe(
      `/notices/${second}`,
    );
  });

  test("mutes the account of a notice on its page, and unmutes it", async () => {
    const id = await makeSampleNotice(admin);
    const send = async (verb: string) => {
      const form = { of: "account", reason: "a test" };
      return textsOf(
        (await client.submit(`/notices/${id}/${verb}`, { cookie: editor, form })).text,
        ".notice",
      )[0];
    };
    expect(await send("mute")).toContain("It is muted: no notice is made for it");
    expect(await send("mute")).toContain("Nothing changed");
    expect(await send("unmute")).toContain("It is not muted any more");
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

test("countOpenNotices() counts each kind, without those that were put off", async () => {
  const count = async () => (await countOpenNotices(admin.database, admin.clock.now())).quota_used;
  const id = await makeSampleNotice(admin);
  const before = await count();
  await admin.call("POST", `/notices/${id}/remind`, { body: { on: inAWeek(admin) } });
  expect(await count()).toBe(before - 1);
});

test("The page of the manual has every kind and every state with its meaning", () => {
  const text = findGuidePage("notices")?.text ?? "";
  for (const [word, meaning] of Object.entries({ ...KIND_MEANINGS, ...STATE_MEANINGS }))
    expect(text).toContain(`| \`${word}\` | ${meaning} |`);
});
