/** One action on many keys of the list: what is asked before, what is changed in which request, and what failed. */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type AuditRow, listAudit } from "../../src/audit/mod.ts";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { newUuid, toId } from "../../src/base/ids.ts";
import { openSession } from "../../src/database/mod.ts";
import type { IssuedKey, IssueRequest } from "../../src/licensing/keys/mod.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { accountOf, uuidOf } from "../support/keys.ts";
import { until } from "../support/until.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient, type Sent } from "./console_client.ts";
import { issueRevoked } from "./sample_requests.ts";
import { stopWaiting } from "./stop_waiting.ts";
import { mainOf, textsOf } from "./texts_of.ts";

// Hundreds of changes run one after another.
setDefaultTimeout(120_000);
const admin = useAdmin();
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("admin"));
});

type Form = NonNullable<Sent["form"]>;

async function send(path: string, form: Form, as = cookie) {
  const { status, text } = await client.send(path, { cookie: as, form });
  return { status, text, said: saidBy(text), heading: /<h1><bdi>(.*?)<\/bdi><\/h1>/.exec(text)?.[1] };
}

/** Returns what a page of a run says. */
function saidBy(text: string): string | undefined {
  return /role="status">(.*?)<\/p>/.exec(text)?.[1];
}

/** Returns the fields that the page keeps in the form of an action, or in that of a run. */
function keptIn(text: string, action: string): [name: string, value: string][] {
  const [, form = ""] = text.split(`action="/console/keys/many/${action}"`);
  const inputs = (form.split("</form>")[0] ?? "").matchAll(
    /<input type="hidden" name="(.*?)" value="(.*?)"/g,
  );
  return [...inputs].map(([, name = "", value = ""]) => [name, value.replaceAll("&amp;", "&")]);
}

const fieldsIn = (text: string, action: string): Record<string, string> =>
  Object.fromEntries(keptIn(text, action));

/** Sends the form of an action, and returns the form of the page that shows what would change. */
async function confirm(action: string, form: Form, as = cookie) {
  const shown = await send(`/keys/many/${action}`, form, as);
  expect({ status: shown.status, said: shown.said }).toEqual({ status: 200, said: undefined });
  return keptIn(shown.text, action);
}

/** Sends the form of an action and, after the page that shows what would change, its changes. */
async function act(action: string, form: Form, as = cookie) {
  return await send(`/keys/many/${action}`, await confirm(action, form, as), as);
}

async function issueMany(count: number, request: Partial<IssueRequest> = {}): Promise<IssuedKey[]> {
  const keys: IssuedKey[] = [];
  for (let n = 0; n < count; n++) keys.push(await admin.issue(request));
  return keys;
}

/** Inserts enterprise keys for tests by SQL, because so many take long to issue. */
async function insertTestKeys(count: number): Promise<Pick<IssuedKey, "id">[]> {
  const issued = await admin.issue({ tier: "free" });
  const rows = await admin.database.query<{ id: string }>(
    (sql) => sql`
      with license as (
        insert into licenses (id, account_id, tier, expires_at, created_at)
        select gen_random_uuid(), ${accountOf(issued)}::uuid, 'enterprise', ${NEVER_EXPIRES}::timestamptz,
               ${admin.clock.now()}::timestamptz
          from generate_series(1, ${count}::integer)
        returning id, created_at
      )
      insert into keys (id, license_id, hash, hint, mode, state, created_at)
      select gen_random_uuid(), id, sha256(id::text::bytea), 'svc_test_…' || left(id::text, 4), 'test', 'active', created_at
        from license
      returning id`,
  );
  return rows.map(({ id }) => ({ id: toId("key", id) }));
}

const idsOf = (keys: readonly IssuedKey[]) => keys.map(({ id }) => id).join(" ");
const rowsWith = async (reason: string): Promise<AuditRow[]> =>
  (await listAudit(admin.database, { limit: 2_000 })).filter((row) => row.reason === reason);

async function statesOf(keys: readonly Pick<IssuedKey, "id">[]): Promise<string[]> {
  const ids = keys.map(uuidOf);
  const rows = await admin.database.query<{ id: string; state: string }>(
    (sql) => sql`select id, state from keys`,
  );
  const states = new Map(rows.map(({ id, state }) => [id, state]));
  return ids.map((id) => states.get(id) ?? "none");
}

describe("Many keys", () => {
  test("are changed 50 in a request, with one row of the audit log for each and the same reason", async () => {
    const keys = await issueMany(120);
    const asked = await send("/keys/many", { id: idsOf(keys) });
    expect(asked.heading).toBe("120 keys");
    expect(asked.text).toContain("<b>120 keys of 120 accounts.</b>");
    const form = { ...fieldsIn(asked.text, "suspend"), reason: "unpaid, all of them" };
    const confirmed = await confirm("suspend", form);
    expect(await rowsWith(form.reason)).toEqual([]);
    const first = await send("/keys/many/suspend", confirmed);
    expect(first).toMatchObject({ status: 200, said: "Suspend: 50 keys done. Failed: 0. Left: 70." });
    expect(await rowsWith(form.reason)).toHaveLength(50);
    const second = await send("/keys/many/suspend", keptIn(first.text, "suspend"));
    expect(second).toMatchObject({
      heading: "Suspend: 100 of 120 keys",
      said: "Suspend: 100 keys done. Failed: 0. Left: 20.",
    });
    const last = await send("/keys/many/suspend", keptIn(second.text, "suspend"));
    expect(last.said).toBe("Suspend: 120 keys done. Failed: 0. Left: 0.");
    expect(last.text).not.toContain("data-continues");
    expect(new Set(await statesOf(keys))).toEqual(new Set(["suspended"]));
    const rows = await rowsWith(form.reason);
    expect(new Set(rows.map(({ keyId }) => keyId)).size).toBe(120);
    expect(rows.every(({ action, actor }) => action === "key.suspend" && actor.startsWith("operator:"))).toBe(
      true,
    );

    // A request that is sent again, as by a reload, changes nothing more.
    const again = await send("/keys/many/suspend", confirmed);
    expect(again.said).toBe("Suspend: 50 keys done. Failed: 0. Left: 70.");
    expect(await rowsWith(form.reason)).toHaveLength(120);
    // Even if every request is sent again.
    await send("/keys/many/suspend", keptIn(again.text, "suspend"));
    expect(await rowsWith(form.reason)).toHaveLength(120);
  });

  test("that do not fit an action are named with their state, and left out", async () => {
    const fitting = await issueMany(2, { email: "both@example.org" });
    const revoked = await issueRevoked(admin);
    const { text, heading } = await send("/keys/many", { id: idsOf([...fitting, revoked]) });
    expect(heading).toBe("3 keys");
    expect(text).toContain("Selected: <bdi>rows of the list</bdi>.");
    expect(text).toContain("<summary>Show the keys: 3 keys</summary>");
    expect(textsOf(text, "details li").filter((row) => row.includes("both@example.org"))).toHaveLength(2);
    // What happens comes first.
    const [, suspend = ""] = text.split('action="/console/keys/many/suspend"');
    expect(suspend).toMatch(/The service refuses the key until[\s\S]*?Left out, because/);
    expect(text).toContain("<b>2 keys of one account.</b>");
    expect(text).toContain("Left out, because the state does not allow it: 1 key");
    const kept = fieldsIn(text, "suspend");
    expect(kept.total).toBe("2");
    expect(kept.id?.split(" ").toSorted()).toEqual(fitting.map(({ id }) => id).toSorted());
    // Nothing is suspended, so nothing can be resumed.
    expect(text).not.toContain('action="/console/keys/many/resume"');
  });

  test("that a run suspended are resumed alone, even if an answer of the run was lost", async () => {
    const keys = await issueMany(60);
    const [other, ...mine] = keys;
    const asked = await send("/keys/many", { id: idsOf(keys) });
    const form = await confirm("suspend", {
      ...fieldsIn(asked.text, "suspend"),
      reason: "the wrong ones",
    });
    // Somebody else suspends one of them after they were shown.
    const colleague = (await client.logIn("editor", "another")).cookie;
    await act("suspend", { id: other?.id ?? "", total: "1" }, colleague);
    await send("/keys/many/suspend", form);
    const first = await send("/keys/many/suspend", form);
    expect(first.text).not.toContain("these");
    const end = await send("/keys/many/suspend", keptIn(first.text, "suspend"));
    expect(end.said).toBe("Suspend: 60 keys done. Failed: 0. Left: 0.");
    expect(end.text).toContain("Resume these 59 keys…");
    expect(end.text).toContain("Do something else with them…");
    expect(end.text).toMatch(/href="\/console\/audit\?actor=operator%3A[^"]*&amp;since=\d{4}-\d\d-\d\d"/);
    const [, undo = ""] = end.text.split('action="/console/keys/many"');
    const kept = Object.fromEntries(keptIn(`action="/console/keys/many/"${undo}`, ""));
    const opened = await send("/keys/many?open=resume", kept);
    expect(opened.heading).toBe("59 keys");
    expect(opened.text).toContain("Selected: <bdi>what “Suspend” has changed</bdi>.");
    expect(opened.text).toContain('id="resume" open');
    let page = await act("resume", fieldsIn(opened.text, "resume"));
    page = await send("/keys/many/resume", keptIn(page.text, "resume"));
    expect(page.text).toContain("Suspend these 59 keys…");
    expect(new Set(await statesOf(mine))).toEqual(new Set(["active"]));
    expect(await statesOf(keys.slice(0, 1))).toEqual(["suspended"]);
  });

  test("of one license are renewed with one row, and another tier leaves the limit of the license", async () => {
    const keys = await issueMany(3, { tier: "free" });
    const form = { id: idsOf(keys), total: "3", tier: "commercial", reason: "upgraded" };
    const confirmed = await confirm("tier", form);
    const changed = "Change tier: 3 licenses done. Failed: 0. Left: 0.";
    expect((await send("/keys/many/tier", confirmed)).said).toBe(changed);
    expect((await rowsWith("upgraded")).map(({ action }) => action)).toEqual(Array(3).fill("license.tier"));
    expect((await send("/keys/many/tier", confirmed)).said).toBe(changed);
    expect(await rowsWith("upgraded")).toHaveLength(3);
  });

  test("are not changed while a field is wrong, and the form keeps what was entered", async () => {
    const keys = await issueMany(2);
    const id = idsOf(keys);
    for (const [action, wrong, error] of [
      ["tier", {}, "It must be one of free"],
      ["renew", { term: "day", last_day: "2020-01-01" }, "lies in the past"],
      ["limit", { monthly_limit: "many" }, "It must be"],
      ["suspend", { reason: "x".repeat(2_001) }, "It must"],
    ] as const) {
      const { status, text } = await send(`/keys/many/${action}`, { id, total: "2", ...wrong });
      expect({ action, status }).toEqual({ action, status: 400 });
      expect(text).toContain("Nothing was changed: correct the marked field.");
      expect(text).toContain(error);
      expect(fieldsIn(text, action).id?.length).toBe(id.length);
    }
    expect(await statesOf(keys)).toEqual(["active", "active"]);
  });

  test("are revoked after their number was typed, by an admin alone", async () => {
    const keys = await issueMany(3);
    const form = {
      ...fieldsIn((await send("/keys/many", { id: idsOf(keys) })).text, "revoke"),
      reason: "stolen all",
    };
    for (const repeat of ["", "2", keys[0]?.id ?? ""]) {
      const { status, text } = await send("/keys/many/revoke", { ...form, repeat });
      expect(status).toBe(400);
      expect(text).toContain("Type the number of keys to confirm: 3");
    }
    const editor = (await client.logIn("editor")).cookie;
    expect((await send("/keys/many/revoke", { ...form, repeat: "3" }, editor)).status).toBe(403);
    expect((await send("/keys/many", { id: idsOf(keys) }, editor)).text).not.toContain("many/revoke");
    expect(await statesOf(keys)).toEqual(["active", "active", "active"]);
    const done = await act("revoke", { ...form, repeat: " 3 " });
    expect(done.said).toBe("Revoke: 3 keys done. Failed: 0. Left: 0.");
    expect(await statesOf(keys)).toEqual(["revoked", "revoked", "revoked"]);
    expect(await rowsWith("stolen all")).toHaveLength(3);
    expect(done.text).not.toContain("Do something else");
  });

  test("that are ended are shown with the signed licenses that stay valid", async () => {
    const keys = [await admin.issue(), await admin.issue(), await admin.issue()];
    for (const { id } of keys.slice(1))
      expect((await admin.call("POST", `/keys/${id}/license`, { body: { days: 30 } })).status).toBe(201);
    const said = async (action: string, some: readonly IssuedKey[]) => {
      const id = some.map(({ id }) => id).join(" ");
      const form = { id, repeat: String(some.length), conditions: "", which: "rows of the list" };
      return mainOf((await client.send(`/keys/many/${action}`, { cookie, form })).text);
    };
    for (const action of ["suspend", "revoke"])
      expect(await said(action, keys)).toContain("2 signed licenses stay valid without a network, the last");
    expect(await said("suspend", keys.slice(1, 2))).toContain("1 signed license stays valid");
    expect(await said("suspend", keys.slice(0, 1))).not.toContain("valid without a network");
  });

  test("cannot be selected by a viewer, who sees no check box", async () => {
    const [key] = await issueMany(1);
    const viewer = (await client.logIn("viewer")).cookie;
    const list = `/keys?search=${key?.id}`;
    const { text } = await client.send(list, { cookie: viewer });
    expect(text).toContain(`/console/keys/${key?.id}`);
    expect(text).not.toContain('type="checkbox"');
    expect((await client.send(list, { cookie })).text).toContain('type="checkbox"');
    for (const path of ["/keys/many", "/keys/many.csv", "/keys/many/suspend"])
      expect((await send(path, { id: key?.id ?? "" }, viewer)).status).toBe(403);
  });

  test("that could not be changed are listed with the reason, and tried again alone", async () => {
    const keys = await issueMany(60);
    const [held] = keys;
    const form = { id: idsOf(keys), total: "60", reason: "one is held" };
    const first = await act("suspend", form);
    const session = openSession(admin.testDatabase.address, { statementTimeoutMs: 30_000 });
    await session.connect();
    await session.sql`begin`;
    await session.sql`select from keys where id = ${uuidOf(held as IssuedKey)}::uuid for update`;
    const sent = send("/keys/many/suspend", keptIn(first.text, "suspend"));
    await stopWaiting(session);
    const end = await sent;
    await session.close();
    expect(end.said).toBe("Suspend: 59 keys done. Failed: 1. Left: 0.");
    expect(end.text).toContain(`<li><a href="/console/keys/${held?.id}">`);
    expect(end.text).toContain("nothing was changed; try again.");
    expect(end.text).toContain("Try again with 1");
    expect(await rowsWith("one is held")).toHaveLength(59);
    const kept = fieldsIn(end.text, "suspend");
    expect(kept).toMatchObject({ id: held?.id ?? "", total: "1", reason: "one is held" });
    const again = await act("suspend", kept);
    expect(again.said).toBe("Suspend: 1 key done. Failed: 0. Left: 0.");
    expect(await rowsWith("one is held")).toHaveLength(60);
  });

  test("wait for the next request while the database is busy, so that each is answered in time", async () => {
    const keys = await issueMany(10);
    const session = openSession(admin.testDatabase.address, { statementTimeoutMs: 30_000 });
    await session.connect();
    await session.sql`begin`;
    await session.sql`select from keys where id = ${uuidOf(keys[8] as IssuedKey)}::uuid for update`;
    const confirmed = await confirm("suspend", { id: idsOf(keys), total: "10" });
    const sent = send("/keys/many/suspend", confirmed);
    await until(async () => (await countWaiting(admin.database)) > 0);
    admin.clock.advance(2_001);
    await stopWaiting(session);
    const { said, text } = await sent;
    await session.close();
    expect(said).toBe("Suspend: 1 key done. Failed: 1. Left: 8.");
    const end = await send("/keys/many/suspend", keptIn(text, "suspend"));
    expect(end.said).toBe("Suspend: 9 keys done. Failed: 1. Left: 0.");
  });

  test("keep the reason of a failure over the requests of a run, and the run stops after a hundred", async () => {
    const keys = await issueMany(110);
    const form = { id: idsOf(keys), total: "110", reason: "too late" };
    const confirmed = await confirm("suspend", form);
    // Somebody revokes all of them after they were shown.
    await act("revoke", { id: idsOf(keys.slice(0, 50)), total: "50", repeat: "50" });
    await act("revoke", { id: idsOf(keys.slice(50, 100)), total: "50", repeat: "50" });
    await act("revoke", { id: idsOf(keys.slice(100)), total: "10", repeat: "10" });
    const first = await send("/keys/many/suspend", confirmed);
    expect(first.said).toBe("Suspend: 0 keys done. Failed: 50. Left: 60.");
    const second = await send("/keys/many/suspend", keptIn(first.text, "suspend"));
    expect(second.said).toBe("Suspend: 0 keys done. Failed: 100. Left: 10.");
    expect(
      second.text.match(/Cannot suspend key: it was active when it was shown, and is revoked now/g),
    ).toHaveLength(100);
    // People decide: the script does not go on by itself.
    expect(second.text).not.toContain("data-continues");
    const kept = fieldsIn(second.text, "suspend");
    expect(kept.total).toBe("110");
    expect(kept.id?.split(" ").toSorted()).toEqual(keys.map(({ id }) => id).toSorted());
  });

  test("are at most 1,000, named by their own ids", async () => {
    const [key] = await issueMany(1);
    const id = key?.id ?? "";
    const others = [
      key?.userId,
      `lic_${id.slice(4)}`,
      id.toUpperCase(),
      `${id}0`,
      "key_",
      "' or 1=1 --",
      "\u0000",
    ];
    for (const text of [...others, toId("key", newUuid()), "", " "]) {
      const { status, text: page } = await send("/keys/many", { id: String(text) });
      expect({ text, status }).toEqual({ text, status: 400 });
      expect(page).toContain("No key is selected");
    }
    expect((await send("/keys/many", {})).status).toBe(400);
    // Among others, and twice.
    const { heading } = await send("/keys/many", {
      id: [...others, id, id, toId("key", newUuid())].join(" "),
    });
    expect(heading).toBe("1 key");
    const many = Array.from({ length: 1_001 }, () => toId("key", newUuid())).join(" ");
    const refused = await send("/keys/many", { id: many });
    expect(refused.status).toBe(400);
    expect(refused.text).toContain("More than 1,000 keys are selected");
    expect(refused.text).toContain("API");
    const confirmed = [...(await confirm("suspend", { id, total: "<b>" })), ["total", "<b>"]];
    const { total: _, ...rest } = Object.fromEntries(confirmed);
    expect((await send("/keys/many/suspend", { ...rest, total: "<b>" })).said).toBe(
      "Suspend: NaN keys done. Failed: 0. Left: 0.",
    );
  });

  test("that are none or too many lead back to the list with its conditions", async () => {
    const conditions = "tier=free&sort=oldest";
    const many = Array.from({ length: 1_001 }, () => toId("key", newUuid())).join(" ");
    for (const id of ["", many]) {
      const { text } = await send("/keys/many", { id, conditions });
      expect(text).toContain('<a href="/console/keys?tier=free&amp;sort=oldest">Back to the keys</a>');
    }
  });

  test("are downloaded as a file", async () => {
    const keys = await issueMany(3);
    const answer = await client.send("/keys/many.csv", { cookie, form: { id: idsOf(keys.slice(1)) } });
    expect(answer.headers.get("content-disposition")).toMatch(/attachment; filename="keys-.*\.csv"/);
    const lines = answer.text.trim().split("\r\n").slice(1);
    expect(lines.map((line) => line.split(",")[0])).toEqual(
      keys
        .slice(1)
        .map(({ id }) => id)
        .reverse(),
    );
  });
});

describe("All keys that meet the conditions", () => {
  test("are read once, so that what was counted is what is changed, and are at most 1,000", async () => {
    const keys = await insertTestKeys(1_000);
    const conditions = { all: "yes", conditions: "tier=enterprise&mode=test" };
    const asked = await send("/keys/many", conditions);
    expect(asked.heading).toBe("1,000 keys");
    expect(asked.text).toContain("Selected: <bdi>all with tier: enterprise, mode: test</bdi>.");
    expect(asked.text).toContain("Show the keys: 1,000 keys, the first 100");
    const list = await client.send("/keys?tier=enterprise&mode=test", { cookie });
    expect(list.text).toContain("All 1,000 keys that meet the conditions</label>");
    expect(
      (await client.send("/keys/many.csv", { cookie, form: conditions })).text.split("\r\n"),
    ).toHaveLength(1_002);
    // This key meets the conditions, and was not counted.
    const later = await admin.issue({ tier: "enterprise", mode: "test" });
    const page = await act("suspend", {
      ...fieldsIn(asked.text, "suspend"),
      // The longest reason leaves room for the form of 1,000 keys.
      reason: "\u4e00".repeat(2_000),
    });
    // The rest of the run names its keys, so it changes no other.
    const left = (fieldsIn(page.text, "suspend").id ?? "").split(" ");
    const done = (await statesOf(keys)).filter((state) => state === "suspended").length;
    // A busy machine changes fewer keys in the time of a request.
    expect(page.said).toMatch(/^Suspend: \d+ keys? done\. Failed: 0\. Left: [\d,]+\.$/);
    expect(done).toBeLessThanOrEqual(50);
    expect(done + left.length).toBe(1_000);
    expect(left).not.toContain(later.id);
    expect(await statesOf([later])).toEqual(["active"]);
    expect(page.text).toContain('href="/console/keys?tier=enterprise&amp;mode=test"');
    const refused = await send("/keys/many", conditions);
    expect([refused.status, refused.text.includes("More than 1,000 keys")]).toEqual([400, true]);
    const longer = (await client.send("/keys?tier=enterprise&mode=test", { cookie })).text;
    expect(longer).toContain("To select all, narrow the conditions to 1,000 keys");
    expect(longer).not.toContain('name="all"');
  });

  test("are none while a condition cannot be read", async () => {
    for (const conditions of [
      "tier=gold",
      "colour=red",
      "tier=free&tier=free",
      "account=nobody@example.org",
    ]) {
      const { status, text } = await send("/keys/many", { all: "yes", conditions });
      expect({ conditions, isRefused: status >= 400 && status < 500 }).toEqual({
        conditions,
        isRefused: true,
      });
      expect(text).not.toContain("keys/many/suspend");
    }
  });
});
