/** The page of the audit log and its download: words, imports in one row, and CSV. */
import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { ACTIONS, wordsOf } from "../../src/audit/mod.ts";
import { monthOf } from "../../src/base/calendar.ts";
import { parseCsvLine } from "../../src/base/text/mod.ts";
import { openSession } from "../../src/database/mod.ts";
import { importKeys, parseImportFields, revokeKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { changeLicense, createLicenseChanges } from "../../src/licensing/mod.ts";
import { importedUsageCte } from "../../src/usage/mod.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, HOSTILE, linkTo, textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
const session = useForAll(async () =>
  openSession(admin.testDatabase.address, { statementTimeoutMs: 20_000 }),
);

/** The texts of the column "What", from top to bottom, without their codes. */
function whatOf(html: string): string[] {
  const cells = html.matchAll(/<td data-label="What">(.*?)<\/td>/gs);
  return [...cells].map(([, cell = ""]) =>
    cell
      .replace(/<code class="more">.*?<\/code>/s, "")
      .replaceAll(/<[^>]*>/g, "")
      .replaceAll(/\s+/g, " ")
      .trim(),
  );
}

/** Imports keys in one transaction. */
async function importMany(count: number, label: string): Promise<void> {
  const lines = Array.from({ length: count }, (_, n) => {
    const fields = {
      sha256: hash("sha256", `${label} ${n}`),
      mode: "live",
      email: `${label}@example.org`,
      tier: "free",
    };
    return { key: orThrow(parseImportFields(fields, BRAND)), line: n + 1 };
  });
  const by = { actor: ACTOR, now: admin.clock.now() };
  orThrow(
    await importKeys(session, lines, {
      ...by,
      usageCte: (sql) => importedUsageCte(sql, monthOf(by.now.getTime())),
    }),
  );
}

describe("wordsOf()", () => {
  test.each([...ACTIONS])("has words for %s", (action) => {
    expect(wordsOf(action)).toMatch(/^[a-z]+( [a-z]+)+$/);
  });

  test("leaves the code of an action that it does not know", () => {
    expect(wordsOf("key.polish")).toBe("key.polish");
    expect(wordsOf("toString")).toBe("toString");
  });
});

describe("GET /audit", () => {
  test("folds each import into one row, on every page and backwards, with a link to its keys", async () => {
    const { cookie } = await client.logIn("admin");
    const page = async (path: string) => (await client.send(path, { cookie })).text;
    const first = await admin.issue({ email: "first@example.org" });
    await importMany(312, "many");
    for (let n = 0; n < 48; n++) await admin.issue({ email: `later${n}@example.org` });
    await importMany(70, "more");
    const last = await admin.issue({ email: "last@example.org" });

    const newest = await page("/audit");
    // The condition has the words of the rows.
    expect(newest).toContain('<option value="key.revoke">revoked the key</option>');
    const what = whatOf(newest);
    expect(what).toHaveLength(50);
    expect(what[0]).toBe(`issued the key …${last.apiKey.slice(-4)} of last@example.org`);
    expect(what.slice(0, 2)).toContain("imported 70 keys");
    expect(what.filter((text) => text.startsWith("imported"))).toEqual(["imported 70 keys"]);
    expect(newest).toContain("50 changes on this page");

    const second = await page(linkTo(newest, "Next page"));
    expect(whatOf(second).slice(0, 2)).toEqual([
      "imported 312 keys",
      `issued the key …${first.apiKey.slice(-4)} of first@example.org`,
    ]);
    expect(whatOf(await page(linkTo(second, "Previous page")))).toEqual(what);

    const keys = await page(linkTo(second, "312 keys"));
    const imported = whatOf(keys);
    expect(imported).toHaveLength(50);
    expect(
      imported.every((text) =>
        /^imported the key svc_live_… id …[0-9a-f]{6} of many@example.org$/.test(text),
      ),
    ).toBe(true);
  });

  test("shows each row of a transaction that has an import and other changes, as in a demo", async () => {
    const { cookie } = await client.logIn("admin");
    await admin.database.query(
      (sql) => sql`
        insert into audit (at, actor, action)
        select now(), 'command:root', action
          from unnest(array['key.suspend', 'key.import', 'key.revoke', 'key.import', 'key.resume']) as action`,
    );
    for (let n = 0; n < 48; n++) await admin.issue({ email: `after${n}@example.org` });
    const newest = (await client.send("/audit", { cookie })).text;
    const second = (await client.send(linkTo(newest, "Next page"), { cookie })).text;
    const codes = [...(newest + second).matchAll(/<code class="more">(key\.\w+)<\/code>/g)];
    expect(codes.slice(48, 53).map(([, code]) => code)).toEqual([
      "key.resume",
      "key.import",
      "key.revoke",
      "key.import",
      "key.suspend",
    ]);
  });

  async function endsWith(digits: string): Promise<number> {
    const [row] = await admin.database.query<{ keys: number }>(
      (sql) => sql`
        select count(*) as keys from keys where right(hint, 4) = ${digits} or right(id::text, 4) = ${digits}`,
    );
    return row?.keys ?? 0;
  }

  test("takes an actor without its kind, and the last four of a key, if they name one", async () => {
    const { cookie } = await client.logIn("admin");
    const page = async (query: string) => (await client.send(`/audit?${query}`, { cookie })).text;
    let key = await admin.issue({ email: "known@example.org" });
    // An imported key is known by the end of its id, and one of hundreds may have the same.
    while ((await endsWith(key.apiKey.slice(-4))) > 1)
      key = await admin.issue({ email: "known@example.org" });
    const what = `issued the key …${key.apiKey.slice(-4)} of known@example.org`;
    expect(whatOf(await page(`key=${encodeURIComponent(`…${key.apiKey.slice(-4)}`)}`))).toEqual([what]);
    expect(whatOf(await page(`key=${key.id}`))).toEqual([what]);
    expect(await page("key=order-78")).toContain("key must name one key, and no key matches.");
    await admin.issue({ email: "other@example.org" });
    await admin.database.query(
      (sql) => sql`update keys set hint = 'svc_live_ab12…77fe' where hint ~ '^svc_live_.*….'`,
    );
    expect(await page("key=77fe")).toContain("key must name one key, and several keys match.");
    for (const actor of ["operator:olga", "operator:emil", "command:emil"])
      await admin.database.query(
        (sql) => sql`insert into audit (at, actor, action) values (now(), ${actor}::text, 'token.issue')`,
      );
    expect(await page("actor=nobody")).toContain("actor must be a kind and a name, such as token:shop");
    expect(await page("actor=emil")).toContain("actor must be one of command:emil, operator:emil.");
    expect(whatOf(await page("actor=olga"))).toEqual(whatOf(await page("actor=operator:olga")));
    expect(whatOf(await page("actor=olga&action=token.issue"))).toHaveLength(1);
  });

  test("hides checksums behind a word", async () => {
    const { cookie } = await client.logIn("viewer");
    const digest = "a1".repeat(32);
    await admin.database.query(
      (sql) => sql`
        insert into audit (at, actor, action, after)
        values (now(), 'command:root', 'model.add', jsonb_build_object('name', 'm', 'version', '1', 'checksum', ${digest}::text))`,
    );
    const { text } = await client.send("/audit?action=model.add", { cookie });
    expect(text).toMatch(new RegExp(`<details><summary>more</summary>.*${digest}.*</details>`, "s"));
    expect(whatOf(text)).toEqual(["added the model m 1"]);
  });
});

const GRACE = { kind: "operator", name: "grace", address: "192.0.2.7" } as const;

describe("A change in the log", () => {
  test("says who made it, from which value to which, and why, with links to the key and its account", async () => {
    const key = await admin.issue({ email: "ada@example.org", tier: "research" });
    const by = { actor: { ...GRACE, reason: "has paid for more" }, now: admin.clock.now() };
    const change = { tier: "commercial", monthlyLimit: 5_000 } as const;
    await changeLicense(createLicenseChanges(admin.database), { keyUuid: uuidOf(key) }, { change, ...by });
    const { cookie } = await client.logIn("viewer");

    const { text } = await client.send("/audit?action=license.change", { cookie });

    const rows = textsOf(text, "tbody tr");
    expect(rows).toHaveLength(1);
    for (const part of [
      "grace, in the console",
      "operator:grace, from 192.0.2.7",
      "has paid for more",
      `changed the license of the key …${key.apiKey.slice(-4)} of ada@example.org`,
    ])
      expect(rows[0]).toContain(part);
    expect(textsOf(text, ".altered li")).toEqual([
      "tier from research to commercial",
      "monthly limit from the tier's to 5,000",
    ]);
    expect(attributesOf(text, 'td[data-label="What"] a', "href")).toEqual([
      `/console/keys/${key.id}`,
      `/console/accounts/${key.userId}`,
    ]);
  });

  test("is found by its day, its action and its actor, and by its key and its account", async () => {
    const key = await admin.issue({ email: "bob@example.org" });
    const lastWeek = new Date(admin.clock.nowMs() - 7 * 86_400_000);
    const actor = { kind: "operator", name: "edith", reason: "the key was on a public page" } as const;
    const changes = createLicenseChanges(admin.database);
    await revokeKey(changes, { uuid: uuidOf(key) }, { actor, now: lastWeek });
    const other = { keyUuid: uuidOf(await admin.issue({ tier: "research" })) };
    await changeLicense(changes, other, { change: { tier: "free" }, actor, now: admin.clock.now() });
    const { cookie } = await client.logIn("viewer");
    const page = async (query: string) => (await client.send(`/audit?${query}`, { cookie })).text;
    const day = lastWeek.toISOString().slice(0, 10);

    const found = await page(`action=key.revoke&since=${day}&until=${day}`);

    expect(textsOf(found, "tbody tr")).toEqual([expect.stringContaining("the key was on a public page")]);
    expect(attributesOf(found, "#since", "value")).toEqual([day]);
    expect(attributesOf(found, "#action option[selected]", "value")).toEqual(["key.revoke"]);
    const ofActor = linkTo(found, "edith, in the console");
    expect(ofActor).toBe("/audit?actor=operator%3Aedith");
    const actions = async (query: string) => textsOf(await page(query), 'td[data-label="What"] code.more');
    expect(await actions(ofActor.slice("/audit?".length))).toEqual(["license.tier", "key.revoke"]);
    expect(await actions(`key=${key.id}`)).toEqual(["key.revoke", "key.issue"]);
    expect(await actions("account=bob@example.org&action=key.issue")).toEqual(["key.issue"]);
    const none = "No change meets these conditions.";
    expect(await page("account=nobody@example.org")).toContain(
      "no account has the id or e-mail nobody@example.org",
    );
    expect(await page(`account=${key.userId}&until=2001-01-01`)).toContain(none);
    expect(await page("action=database.restore")).toContain(none);
  });

  test("shows a hostile reason as text, and any query is answered with a page", async () => {
    const key = await admin.issue();
    const by = { actor: { ...GRACE, reason: `${HOSTILE}\u202e` }, now: admin.clock.now() };
    await suspendKey(createLicenseChanges(admin.database), uuidOf(key), by);
    const { cookie } = await client.logIn("viewer");
    const { text } = await client.send("/audit?action=key.suspend", { cookie });
    expect(textsOf(text, 'td[data-label="Reason"] bdi')).toContain(`${HOSTILE}\\u202e`);
    expect(text).not.toContain("<img");
    for (const any of [HOSTILE, "a".repeat(1_000), "\u0000", "' or 1=1 --", "%", "key_1", "9999-99-99"]) {
      const names = ["actor", "action", "key", "account", "since", "until", "after"];
      const query = new URLSearchParams(names.map((name): [string, string] => [name, any]));
      const answer = await client.send(`/audit?${query}`, { cookie });
      expect([any, answer.status, textsOf(answer.text, "h1")]).toEqual([any, 400, ["Audit"]]);
    }
  });
});

test("The page of the log is smaller than 150 kB with the longest reasons and values", async () => {
  const text = `"<&>'\u202e\u{1f4a1}`.repeat(300).slice(0, 2_000);
  await admin.database.query(
    (sql) => sql`
      insert into audit (at, actor, action, account_id, key_id, before, after, reason, door, address)
      select ${admin.clock.now()}::timestamptz, 'http:2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', 'account.erase',
             gen_random_uuid(), gen_random_uuid(), jsonb_build_object('name', ${text}::text),
             jsonb_build_object('name', ${text}::text || n, 'organization', ${text.slice(0, 70)}::text), ${text}::text, 'client',
             '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'
        from generate_series(1, 50) n`,
  );
  const { cookie } = await client.logIn("viewer");
  const { text: html } = await client.send("/audit?action=account.erase", { cookie });
  expect(html.match(/<tr>/g)).toHaveLength(51);
  expect(Buffer.byteLength(html)).toBeLessThan(150_000);
});

describe("GET /audit.csv", () => {
  test("has every row that meets the conditions, with codes and values", async () => {
    const { cookie } = await client.logIn("viewer");
    await importMany(70, "csv");
    const path = "/audit.csv?action=key.import&account=csv@example.org";
    const { text, headers } = await client.send(path, { cookie });
    expect(headers.get("content-type")).toBe("text/csv; charset=utf-8");
    const [heading = "", ...lines] = text.trimEnd().split("\r\n");
    expect(heading).toBe(
      "id,at,actor,door,action,user_id,license_id,key_id,before,after,reason,request,address,unique_id",
    );
    expect(lines).toHaveLength(70);
    const cells = parseCsvLine(lines[0] ?? "") ?? [];
    expect(cells.slice(2, 5)).toEqual(["command:tester", "command", "key.import"]);
    expect(JSON.parse(cells[9] ?? "")).toMatchObject({ tier: "free", mode: "live" });
    const { text: none } = await client.send("/audit.csv?actor=token:nobody", { cookie });
    expect(none).not.toContain("command:tester");
    expect((await client.send("/audit.csv?actor=nobody", { cookie })).status).toBe(400);
  });
});
