/** The list of accounts, the page of an account, its changes and its erasure. */
import { beforeAll, describe, expect, test } from "bun:test";
import { type IssuedKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges, listAccounts, renewAccount } from "../../src/licensing/mod.ts";
import type { Role } from "../../src/operators/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { accountOf, uuidOf } from "../support/keys.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, HOSTILE, linkTo, mainOf, textsOf } from "./texts_of.ts";

const DAY_MS = 86_400_000;

const admin = useAdmin();
const client = createConsoleClient(admin);
let cookies: Readonly<Record<Role, string>>;
beforeAll(async () => {
  cookies = {
    viewer: (await client.logIn("viewer", "vera")).cookie,
    editor: (await client.logIn("editor", "emil")).cookie,
    admin: (await client.logIn("admin", "olga")).cookie,
  };
});

const open = async (path: string, role: Role = "viewer") =>
  (await client.send(path, { cookie: cookies[role] })).text;
const change = (path: string, form: Record<string, string>, role: Role = "editor") =>
  client.submit(path, { cookie: cookies[role], form });
const inDays = (days: number) => new Date(admin.clock.nowMs() + days * DAY_MS);
const by = (reason?: string) => ({ actor: { ...ACTOR, reason }, now: admin.clock.now() });

describe("The list of accounts", () => {
  const empty = createConsoleClient(useAdmin());

  test("says what to do while it is empty, and offers a key to who may issue one", async () => {
    const openEmpty = async (role: Role) =>
      mainOf((await empty.send("/accounts", { cookie: (await empty.logIn(role)).cookie })).text);
    const none = "the first key of a new e-mail makes one.";
    expect(await openEmpty("editor")).toEndWith(`${none} Issue a key`);
    expect(await openEmpty("viewer")).toEndWith(none);
  });

  test("is narrowed by a search, which can be wrong and can find nothing", async () => {
    for (const name of ["Grace Hopper", "Ada Lovelace", "Rosa Parks"])
      await admin.issue({
        email: `${name.slice(0, 4).toLowerCase()}@example.org`,
        name,
        organization: "Compiler Labs",
      });
    const found = await open("/accounts?search=hopper");
    expect(textsOf(found, "tbody tr")).toEqual([expect.stringContaining("Grace Hopper")]);
    expect(linkTo(found, "Show all")).toBe("/accounts");
    expect(mainOf(await open("/accounts?search=nobody"))).toContain("No account matches.");
    expect(mainOf(await open("/accounts?search=!!"))).toContain("Nothing is shown: search must be one line");
  });
});

describe("A row of the list of accounts", () => {
  const rowOf = async (email: string) =>
    textsOf(await open(`/accounts?search=${email}`), "tbody tr").find((row) => row.includes(email));

  test("shows the tiers that work, the state of the keys, and the use of the month over all licenses", async () => {
    const email = "standing@rows.example";
    const free = await admin.issue({ email, tier: "free" });
    const lab = await admin.issue({ email, tier: "enterprise" });
    const ended = await admin.issue({ email, tier: "commercial" });
    await admin.database.query(
      (sql) => sql`
        update licenses set expires_at = ${inDays(-1)}::timestamptz where id = ${ended.licenseUuid}::uuid`,
    );
    for (const [{ licenseUuid }, used] of [
      [free, 40],
      [lab, 7_000],
      [ended, 500],
    ] as const)
      await admin.database.query(
        (sql) => sql`
          insert into usage (license_id, month, used)
          values (${licenseUuid}::uuid, date_trunc('month', ${admin.clock.now()}::timestamptz at time zone 'utc')::date, ${used}::bigint),
                 (${licenseUuid}::uuid, date_trunc('month', ${inDays(-40)}::timestamptz at time zone 'utc')::date, 9)`,
      );
    expect(await rowOf(email)).toMatch(
      /^standing@rows\.example.* enterprise, free active ?1 expired 7,540 3 /,
    );
    await suspendKey(createLicenseChanges(admin.database), uuidOf(free), by());
    await suspendKey(createLicenseChanges(admin.database), uuidOf(lab), by());
    expect(await rowOf(email)).toMatch(/ enterprise, free suspended ?1 expired 7,540 3 /);
    await admin.issue({ email: "another@rows.example" });
    expect(textsOf(await open("/search?q=rows.example"), "main tbody tr").join(" ")).toContain("7,540");
  });

  test("of an account with more than 100 keys says so instead", async () => {
    const { licenseUuid } = await admin.issue({ email: "large@rows.example" });
    const add = (from: number, to: number) =>
      admin.database.query(
        (sql) => sql`
          insert into keys (id, license_id, hash, hint, mode, created_at)
          select lpad(to_hex(n), 32, '0')::uuid, ${licenseUuid}::uuid, sha256(('large ' || n)::bytea), 'large', 'live', ${admin.clock.now()}::timestamptz
            from generate_series(${from}::integer, ${to}::integer) as n`,
      );
    await add(2, 100);
    expect(await rowOf("large@rows.example")).toMatch(/ research active 0 100 /);
    await add(101, 101);
    expect(await rowOf("large@rows.example")).toMatch(/ – more than 100 keys – 101 /);
  });
});

describe("The page of an account", () => {
  let grace: IssuedKey;
  let path: string;

  beforeAll(async () => {
    const email = "grace@example.org";
    grace = await admin.issue({ email, tier: "commercial", expiresAt: inDays(12), externalId: "order-7" });
    path = `/accounts/${grace.userId}`;
    const second = await admin.issue({ email, tier: "free", mode: "test", expiresAt: inDays(200) });
    const changes = createLicenseChanges(admin.database);
    await suspendKey(changes, uuidOf(second), by("unpaid <b>bill</b>"));
    await renewAccount(changes, accountOf(second), { ...by("paid"), now: inDays(-2) });
    for (const [month, used] of [0, 40, 90_000, 120_000, 200, 7_000].entries())
      await admin.database.query(
        (sql) => sql`
          insert into usage (license_id, month, used)
          values (${grace.licenseUuid}::uuid,
                  (date_trunc('month', ${admin.clock.now()}::timestamptz at time zone 'utc')
                    - make_interval(months => ${month}::int))::date, ${used}::bigint)`,
      );
  });

  test("shows facts, licenses with their keys, use and history", async () => {
    const text = await open(path);
    for (const part of [grace.userId, "order-7", "commercial", "license.renew", "unpaid <b>bill</b>"])
      expect(mainOf(text)).toContain(part);
    expect(attributesOf(text, "main a", "href")).toContain(`/console/keys/${grace.id}`);
    expect(textsOf(text, "figcaption")).toEqual(["Inferences by month, over all licenses"]);
    expect(textsOf(text, ".numbers td")).toContain("120,000");
  });

  test("says first which keys are refused and why, then shows the licenses, before actions and use", async () => {
    const text = await open(path, "editor");
    expect(textsOf(text, ".notice.warning")).toEqual([
      expect.stringMatching(
        /^The service refuses requests with 1 key of this account\. ?svc_test_\w{4}…\w{4}: It is suspended\.$/,
      ),
    ]);
    const parts = ["notice warning", ">Licenses<", 'id="renew"', "Inferences by month"];
    const places = parts.map((part) => text.indexOf(part));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places[0]).toBeGreaterThan(0);
    const works = await admin.issue({ email: "works@example.org" });
    expect(textsOf(await open(`/accounts/${works.userId}`), ".notice")).toEqual([]);
  });

  test.each([
    ["viewer", []],
    ["editor", ["Issue a key", "Renew by a year…", "Change…", "Change the e-mail…"]],
    ["admin", ["Issue a key", "Renew by a year…", "Change…", "Change the e-mail…", "Erase…"]],
  ] as const)("offers to the role %s what it may do", async (role, offered) => {
    const text = await open(path, role);
    const shown = textsOf(text, "#title a, .action > summary, .opens");
    expect(shown.toSorted()).toEqual(offered.toSorted());
  });

  test("leads to the form that issues another key for the account", async () => {
    const form = await open(linkTo(await open(path, "editor"), "Issue a key"), "editor");
    expect(attributesOf(form, "#issue-email", "value")).toEqual(["grace@example.org"]);
  });

  test("renews every license with its reason, and forgets their keys", async () => {
    const email = "renewed@example.org";
    const first = await admin.issue({ email, expiresAt: inDays(12) });
    const second = await admin.issue({ email, expiresAt: inDays(200) });
    const own = `/accounts/${first.userId}`;
    const version = attributesOf(await open(own, "editor"), "#renew [name=version]", "value")[0] ?? "";
    admin.forgotten.length = 0;
    const { text } = await change(`${own}/renew`, { version, reason: "paid until next year" });
    expect(textsOf(text, ".notice")[0]).toContain("Licenses of the account were renewed.");
    expect(mainOf(text)).toContain("paid until next year");
    expect(mainOf(text)).toContain("emil, in the console");
    expect(admin.forgotten.toSorted()).toEqual([first.licenseUuid, second.licenseUuid].toSorted());
  });

  test("renews once if the form is sent twice, and offers nothing if no license can be renewed", async () => {
    const key = await admin.issue({ email: "twice@example.org", expiresAt: inDays(3) });
    const renew = `/accounts/${key.userId}/renew`;
    const page = await open(`/accounts/${key.userId}`, "editor");
    expect(textsOf(page, "#renew")[0]).toContain("One license gets another year");
    const version = attributesOf(page, "#renew [name=version]", "value")[0] ?? "";
    expect((await change(renew, { version })).status).toBe(303);
    const second = await change(renew, { version });
    expect([second.status, textsOf(second.text, "[role=alert]")[0]]).toEqual([
      409,
      expect.stringContaining("Nothing was renewed"),
    ]);
    const endless = await admin.issue();
    const text = await open(`/accounts/${endless.userId}`, "editor");
    expect(mainOf(text)).toContain("No license can be renewed now");
    expect(textsOf(text, ".action > summary")).toEqual(["Change…", "Change the e-mail…"]);
  });

  test("leaves what takes long with very many keys to a link and to the command", async () => {
    const key = await admin.issue({ email: "many@example.org", expiresAt: inDays(3) });
    const add = (keys: number) =>
      admin.database.query(
        (sql) => sql`
          insert into listed_keys (key_id, account_id, tier, mode, state, expires_at)
          select gen_random_uuid(), account_id, tier, mode, state, expires_at
            from listed_keys cross join generate_series(1, ${keys}::integer)
           where key_id = ${uuidOf(key)}::uuid`,
      );
    const [link, noUse] = [
      "Show the inferences by month",
      "No inference was reported in the last twelve months.",
    ];
    await add(499);
    const few = await open(`/accounts/${key.userId}`, "editor");
    expect([few.includes(noUse), few.includes(link)]).toEqual([true, false]);
    await add(501);
    const many = await open(`/accounts/${key.userId}`, "editor");
    expect(mainOf(many)).toContain(`claviger accounts renew ${key.userId}`);
    expect(textsOf(many, ".action > summary")).toEqual(["Change…", "Change the e-mail…"]);
    expect(many).not.toContain(noUse);
    expect(await open(linkTo(many, link), "editor")).toContain(noUse);
  });

  test("keeps what was entered when a change is refused, and says when nothing changed", async () => {
    const { userId } = await admin.issue({ email: "changing@example.org" });
    const send = (name: string) => change(`/accounts/${userId}/change`, { name, organization: HOSTILE });
    const refused = await send("N".repeat(201));
    expect(refused.status).toBe(400);
    expect(textsOf(refused.text, ".error")[0]).toStartWith("It must be one line of 1 to 200 characters");
    expect(attributesOf(refused.text, "#change-organization", "value")).toEqual([HOSTILE]);
    expect(mainOf((await send("Grace")).text)).toContain("The account was changed.");
    const account = (await listAccounts(admin.database)).find(({ email }) => email.startsWith("changing"));
    expect(account).toMatchObject({ name: "Grace", organization: HOSTILE });
    expect(mainOf((await send("Grace")).text)).toContain("Nothing changed");
  });

  test("has no name in the form and in what a change says while the account has none", async () => {
    const { userId } = await admin.issue({ email: "pia@example.org" });
    let page = await open(`/accounts/${userId}`, "editor");
    for (const [name, organization, said] of [
      ["", "Labs", "Name: none. Organization: Labs."],
      ["Pia", "Labs", "Name: Pia. Organization: Labs."],
      ["", "", "Name: none. Organization: none."],
    ] as const) {
      expect(attributesOf(page, "#change-name", "name")).toEqual(["name"]);
      const shown = attributesOf(page, "#change-name", "value");
      expect(shown).toEqual(said.endsWith("none.") ? ["Pia"] : []);
      page = (await change(`/accounts/${userId}/change`, { name, organization })).text;
      expect(textsOf(page, ".notice")[0]).toContain(said);
    }
  });

  test("shows hostile names as text, and answers an id that no account has", async () => {
    const { userId } = await admin.issue({
      email: "hostile@example.org",
      name: `${HOSTILE}\u202e`,
      organization: HOSTILE,
    });
    const text = await open(`/accounts/${userId}`);
    expect(textsOf(text, ".facts bdi")).toEqual([`${HOSTILE}\\u202e`, HOSTILE]);
    expect(text).not.toContain("<img");
    expect(textsOf(text, "title")).toEqual([`Account: ${HOSTILE}\\u202e, ${HOSTILE} – Claviger`]);
    const unknown = await client.send(`/accounts/usr_${"0".repeat(32)}`, { cookie: cookies.viewer });
    expect(unknown.status).toBe(404);
    expect(mainOf(unknown.text)).toContain("Cannot show account: no account has that id.");
  });
});

test("An erasure shows what goes and what stays, and erases the person with all keys when the e-mail is typed", async () => {
  const email = "leaving@example.org";
  const { userId } = await admin.issue({ email, name: "Leaving", externalId: "order of Leaving" });
  await admin.issue({ email });
  const page = await open(linkTo(await open(`/accounts/${userId}`, "admin"), "Erase…"), "admin");
  expect(textsOf(page, ".facts dd")).toEqual([
    email,
    "Leaving",
    "2",
    "1",
    "0",
    "their texts and metadata, in the background",
  ]);
  expect(mainOf(page)).toContain("2 licenses, 2 keys, and their use");
  expect(mainOf(page)).toContain("license files that were downloaded earlier");
  const erase = (repeat: string) => change(`/accounts/${userId}/erasure/erase`, { repeat }, "admin");
  const wrong = await erase("leaving@example.com");
  expect([wrong.status, textsOf(wrong.text, ".error")]).toEqual([400, ["It must be leaving@example.org"]]);
  expect(attributesOf(wrong.text, "#erase-repeat", "autocapitalize")).toEqual(["off"]);
  // As a phone writes it.
  const { text } = await erase("Leaving@Example.org ");
  expect(textsOf(text, ".notice")).toEqual([
    expect.stringContaining("All keys are revoked, and the person was erased."),
  ]);
  expect(mainOf(text)).not.toMatch(/leaving/i);
  expect(textsOf(text, ".action")).toEqual([]);
  const account = await open(linkTo(text, "Back to the account"), "admin");
  expect(mainOf(account)).toContain("The texts and metadata of the person's events are being removed.");
  expect(account).not.toContain("Erase…");
});
