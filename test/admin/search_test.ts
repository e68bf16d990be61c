/**
 * The search box of the console. A whole key opens its page; whatever looks like a key, a token or a code is never in an
 * address, in the log or on a page.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { toId } from "../../src/base/ids.ts";
import { generateApiKey, type IssuedKey, toHint } from "../../src/licensing/keys/mod.ts";
import { ROLES } from "../../src/operators/mod.ts";
import { BRAND } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { add } from "./list_kit.ts";
import { textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
let cookie = "";
let ada = {} as IssuedKey;
let order = {} as IssuedKey;
beforeAll(async () => {
  ({ cookie } = await client.logIn("admin", "olga"));
  ada = await admin.issue({ email: "ada@example.org", name: "Ada Lovelace", organization: "Analytical" });
  order = await admin.issue({ email: "grace@example.org", externalId: "order-17" });
  await admin.issue({ email: "ada.b@example.org", name: "Ada B" });
  await add(admin, "motor_imagery");
  await add(admin, "motor_imagery_2");
});

/** Sends the box, and follows it to the page of the results. */
async function search(q: string, as = cookie) {
  const sent = await client.send("/search", { cookie: as, form: { q } });
  if (!sent.location?.startsWith("/console/search")) return sent;
  return await client.send(sent.location.slice("/console".length), { cookie: as });
}

const groupsOf = (text: string) => [...text.matchAll(/<h2>(.*?)<\/h2>/g)].map(([, label]) => label);

describe("POST /search", () => {
  test("opens the page of a whole key, however it was pasted", async () => {
    const { apiKey, id } = ada;
    for (const q of [
      apiKey,
      ` ${apiKey}\n`,
      apiKey.toUpperCase(),
      apiKey.slice(9),
      `SVC_KEY="${apiKey}" fails`,
    ]) {
      const { status, location } = await client.send("/search", { cookie, form: { q } });
      expect({ status, location }).toEqual({ status: 303, location: `/console/keys/${id}` });
    }
  });

  test("opens the page of the only result, whatever kind it is", async () => {
    const digits = ada.apiKey.slice(9);
    const [start, end] = [digits.slice(0, 4), digits.slice(-4)];
    const pages: [text: string, page: string][] = [
      ...[
        start,
        `svc_live_${start}`,
        digits.slice(0, 7),
        end,
        `\u2026${end}`,
        `...${end}`,
        toHint(ada.apiKey),
      ].map((text): [string, string] => [text, `/keys/${ada.id}`]),
      [`\u201c\u2026${end}\u201d`, `/keys/${ada.id}`],
      ...[
        `my key ${toHint(ada.apiKey)} does not work`,
        `My key is svc_live_\u2026${end}. Why?`,
        `it is svc_live_${start}\u2026, and it fails`,
        `SVC_KEY="svc_live_${start}" fails`,
        `(\u2026${toHint(ada.apiKey).slice(-4)})`,
      ].map((text): [string, string] => [text, `/keys/${ada.id}`]),
      [`\u00bb${ada.id}\u00ab`, `/keys/${ada.id}`],
      ["\u201eada@example.org\u201c", `/accounts/${ada.userId}`],
      ["lovelace", `/accounts/${ada.userId}`],
      ["order 17", `/keys/${order.id}`],
      ["ORDER-1", `/keys/${order.id}`],
      ["olg", "/access/operators/olga"],
      ["gery_2", "/models/motor_imagery_2"],
      [ada.id, `/keys/${ada.id}`],
      [toId("lic", ada.licenseUuid), `/keys/${ada.id}`],
      [ada.userId, `/accounts/${ada.userId}`],
      ["Ada@Example.org", `/accounts/${ada.userId}`],
      ["order-17", `/keys/${order.id}`],
      ["olga", "/access/operators/olga"],
      ["motor_imagery_2", "/models/motor_imagery_2"],
    ];
    for (const [text, page] of pages)
      expect({ text, page: (await search(text)).location }).toEqual({ text, page: `/console${page}` });
  });

  test("keeps other texts in the address of the results, which can be opened again", async () => {
    const { location } = await client.send("/search", { cookie, form: { q: " ada org " } });
    expect(location).toBe("/console/search?q=ada+org");
    const { status, text } = await client.send("/search?q=ada+org", { cookie });
    expect(status).toBe(200);
    expect(text).toContain('value="ada org"');
    expect(text).toContain("ada@example.org");
    expect(text).not.toContain("grace@example.org");
  });

  test.each([
    ["a UUID", "0b6f3c1e-8d2a-4c55-9f7b-2a1d3e4f5a6b"],
    ["a UUID behind a word", "order-0B6F3C1E-8D2A-4C55-9F7B-2A1D3E4F5A6B"],
    ["a number with a day", "2026-11-27-000123"],
    ["a number with a day behind a word", "invoice 2026-11-27-000123"],
    ["a long number with a day and letters", "ORDER-20261127-000123-BE-01"],
    ["a number in groups", "4711-0815-0042-0001-7"],
  ])("keeps %s in the address, too, because keys and codes have another form", async (_, q) => {
    const { status, location } = await client.send("/search", { cookie, form: { q } });
    expect({ status, location }).toEqual({
      status: 303,
      location: `/console/search?${new URLSearchParams({ q })}`,
    });
    expect((await search(q)).text).toContain("Nothing was found for");
  });

  test.each([
    ["ada", "Search: ada"],
    ["nobody", "Nothing found: nobody"],
    [`svc_live_${"0123456789abcdef".repeat(2)}`, "Nothing found"],
  ])("says what was searched in its title, unless that is a secret: %s", async (q, title) => {
    const { text } = await search(q);
    expect([textsOf(text, "title"), textsOf(text, "h1")]).toEqual([[`${title} – Claviger`], [title]]);
  });

  test("shows the results in groups, and only those that exist", async () => {
    const { text } = await search("ada");
    expect(groupsOf(text)).toEqual(["Keys", "Accounts"]);
    expect(groupsOf((await search("motor")).text)).toEqual(["Models"]);
    // Both names contain the text, and the whole name comes first.
    const { text: models } = await search("motor_imagery");
    expect(models.indexOf("/models/motor_imagery&quot;")).toBeLessThan(models.indexOf("motor_imagery_2"));
  });

  test("does not open a key of which only the first and last characters were compared", async () => {
    for (const q of [ada.apiKey.slice(0, 40), `${ada.apiKey.slice(0, 20)}…${ada.apiKey.slice(-4)}`]) {
      const { status, text } = await search(q);
      expect({ q, status, isFound: text.includes(ada.id) }).toEqual({ q, status: 200, isFound: true });
    }
  });

  test("shows the keys with the same start or the same end if no key has both", async () => {
    const digits = ada.apiKey.slice(9);
    const [start, end] = [digits.slice(0, 4), digits.slice(-4)];
    const other = (text: string) => `${text.slice(0, 3)}${text.endsWith("0") ? "1" : "0"}`;
    for (const [q, group] of [
      [`svc_live_${start}…${other(end)}`, "Keys with the same start"],
      [`svc_live_${other(start)}…${end}`, "Keys with the same end"],
      [`svc_live_${start}${digits.slice(4, 44)}${other(end)}`, "Keys with the same start"],
    ] as const) {
      const { status, text } = await search(q);
      expect({ q, status, groups: groupsOf(text) }).toEqual({ q, status: 200, groups: [group] });
      expect(text).toContain(ada.id);
      expect(text).toContain("Nothing was found for");
    }
    expect(groupsOf((await search(`svc_live_${start}…${end}`)).text)).not.toContain(
      "Keys with the same start",
    );
  });

  test("shows the keys with the same digits if the text has another mode, however its dots are written", async () => {
    const { apiKey, id } = await admin.issue({ email: "mode@example.org", mode: "test" });
    const digits = apiKey.slice(9);
    const [start, end] = [digits.slice(0, 4), digits.slice(-4)];
    for (const [q, groups] of [
      [`svc_live_…${end}`, ["Keys with the same end"]],
      [`svc_live_...${end}`, ["Keys with the same end"]],
      [`My key is svc_live_…${end}. Why?`, ["Keys with the same end"]],
      [`svc_live_${start}`, ["Keys with the same start"]],
      [`svc_live_${start}…${end}`, ["Keys with the same start", "Keys with the same end"]],
    ] as const) {
      const { text } = await search(q);
      expect({ q, groups: groupsOf(text), isFound: text.includes(id) }).toEqual({
        q,
        groups: [...groups],
        isFound: true,
      });
    }
  });

  test("shows the keys that a word of a sentence could end, if nothing was found", async () => {
    const end = ada.apiKey.slice(-4);
    await admin.database.query(
      (sql) => sql`update keys set hint = 'svc_live_…0d2e', id = id where id = ${uuidOf(order)}::uuid`,
    );
    const { text } = await search("my key 0d2e does not work");
    expect([groupsOf(text), text.includes(order.id), text.includes(ada.id)]).toEqual([
      ["Keys with the same end"],
      true,
      false,
    ]);
    for (const q of ["my key face is dead", `${end.replace(/./g, "z")} or 12345 fails`])
      expect([q, groupsOf((await search(q)).text)]).toEqual([q, []]);
  });

  test("shows at most ten results of a group, the named ones first, with a link to all of them", async () => {
    for (let n = 0; n < 12; n++)
      await admin.issue({ email: `crowd${n}@example.org`, organization: "Ab17 AG" });
    const named = await admin.issue({ email: "ab17@elsewhere.example" });
    await admin.database.query(
      (sql) => sql`update keys set hint = 'svc_live_…ab17', id = id where id = ${uuidOf(named)}::uuid`,
    );
    const { text } = await search("ab17");
    expect(groupsOf(text)).toEqual(["Keys", "Accounts"]);
    expect(text.match(/href="\/console\/keys\/key_/g)).toHaveLength(10);
    expect(/href="\/console\/keys\/(key_\w+)"/.exec(text)?.[1]).toBe(named.id);
    expect(text).toContain('href="/console/keys?search=ab17"');
    expect(text).toContain('href="/console/accounts?search=ab17"');
  });

  test("says what can be searched when nothing was found, and when nothing was entered", async () => {
    const { text } = await search("nobody & <b>");
    expect(text).toContain("Nothing was found for <bdi>nobody &amp; &lt;b&gt;</bdi>");
    expect(text).toContain("You can search:");
    expect(text).toContain("<li>a whole key</li>");
    expect(text).toContain("order 47 for ORDER-4711");
    expect(await client.send("/search", { cookie, form: { q: "  " } })).toMatchObject({
      status: 303,
      location: "/console/search",
    });
    expect((await client.send("/search", { cookie })).text).toContain("You can search:");
  });

  test("warns of a list that is not complete", async () => {
    await admin.database.query(
      (sql) => sql`
        insert into accounts (id, email, name, organization, created_at)
        select gen_random_uuid(), 'same-' || n || '@example.org', 'Same', '', now() from generate_series(1, 1001) n`,
    );
    expect((await search("same")).text).toContain("More than 1,000 accounts or external ids match");
  });

  test("finds only what the role may open", async () => {
    for (const role of ROLES) {
      const { cookie: as } = await client.logIn(role, `searcher-${role}`);
      await client.logIn(role, `searcher-2-${role}`);
      const found = groupsOf((await search("searcher", as)).text);
      expect({ role, found }).toEqual({ role, found: role === "admin" ? ["Operators"] : [] });
      expect((await search("ada", as)).text).toContain("ada@example.org");
      const { text } = await client.send("/search", { cookie: as });
      expect(text.includes("or an operator")).toBe(role === "admin");
    }
  });
});

describe("a secret", () => {
  const unknown = generateApiKey(BRAND, "live").apiKey;
  const hex = (text: string) => hash("sha256", text);
  const secrets: [kind: string, text: string][] = [
    ["an unknown key", unknown],
    ["an unknown key in capitals", unknown.toUpperCase()],
    ["the digits of an unknown key", unknown.slice(9)],
    ["a key of another brand", unknown.replace("svc", "acme")],
    ["a key in a sentence", `My key ${unknown} does not work`],
    ["a key with a space in it", `${unknown.slice(0, 30)} ${unknown.slice(30)}`],
    ["a key with an invisible character", `${unknown.slice(0, 12)}\u200b${unknown.slice(12)}`],
    [
      "a key in wide digits",
      unknown.replaceAll(/\d/g, (digit) => String.fromCharCode(0xff10 + Number(digit))),
    ],
    ["a cut key", unknown.slice(0, 20)],
    ["a cut key without its prefix", unknown.slice(9, 35)],
    ["a token of a program", `svc_op_${hex("token").slice(0, 48)}`],
    ["a cut token", `svc_op_${hex("token").slice(0, 10)}`],
    ["a login code", hex("code").slice(0, 32)],
    [
      "a login code in groups",
      hex("code")
        .slice(0, 32)
        .replaceAll(/(.{4})(?=.)/g, "$1-"),
    ],
    [
      "a login code with spaces",
      hex("code")
        .slice(0, 32)
        .replaceAll(/(.{8})(?=.)/g, "$1 "),
    ],
    ["a link with a login code", `http://127.0.0.1:8081/console/enter#${hex("code").slice(0, 32)}`],
    ["a session", hex("session")],
    ["a repository token", "ghs_16C7e42F292c6912E7710c838347Ae178B4a"],
    ["a fine-grained repository token", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz"],
    ["another repository token", "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZg=="],
    ["a signed license", "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJrZXkifQ.c2lnbmF0dXJl"],
  ];
  /** Tells whether a text has more of a secret than a hint may have: nine letters and digits in a row, one a digit. */
  const reveals = (text: string, secret: string) => {
    const where = text.toLowerCase();
    const bare = secret.toLowerCase().replace(/^(svc|acme)_(live|test|op)_/, "");
    return Array.from({ length: bare.length - 8 }, (_, at) => bare.slice(at, at + 9)).some(
      (part) => /^(?=.*\d)[0-9a-z]{9}$/.test(part) && where.includes(part),
    );
  };

  for (const [kind, secret] of secrets) {
    test(`${kind} is in no address, no log and no page`, async () => {
      admin.logLines.length = 0;
      const { status, location, text, headers } = await client.send("/search", {
        cookie,
        form: { q: secret },
      });
      expect({ status, location }).toEqual({ status: 200, location: null });
      expect(text).toContain("Nothing was found");
      expect(reveals(text, secret)).toBe(false);
      expect(reveals(JSON.stringify([...headers]), secret)).toBe(false);
      expect(reveals(admin.logLines.join("\n"), secret)).toBe(false);
    });

    test(`${kind} in an address is refused, and not repeated`, async () => {
      admin.logLines.length = 0;
      const { status, text } = await client.send(`/search?${new URLSearchParams({ q: secret })}`, { cookie });
      expect(status).toBe(400);
      expect(text).toContain("must not be a key or a token");
      expect(reveals(text, secret)).toBe(false);
      expect(reveals(admin.logLines.join("\n"), secret)).toBe(false);
    });
  }

  test("a key in the address of a list or of the API is refused, and not repeated", async () => {
    const query = new URLSearchParams({ search: ada.apiKey });
    for (const list of ["keys", "accounts"]) {
      const { status, text } = await client.send(`/${list}?${query}`, { cookie });
      expect({ list, status, isShown: reveals(text, ada.apiKey) }).toEqual({
        list,
        status: 400,
        isShown: false,
      });
    }
    const { status, body } = await admin.call("GET", `/keys?${query}`);
    expect(status).toBe(400);
    expect(body.error).toContain("search must be");
    expect(body.error).toContain("no API key");
    expect(reveals(JSON.stringify(body), ada.apiKey)).toBe(false);
    expect(reveals(admin.logLines.join("\n"), ada.apiKey)).toBe(false);
  });

  test("an unknown key leads to the known keys with the same start and end", async () => {
    const digits = ada.apiKey.slice(9);
    const mistyped = `svc_live_${digits.slice(0, 20)}${digits[20] === "0" ? "1" : "0"}${digits.slice(21)}`;
    const { status, text } = await client.send("/search", { cookie, form: { q: mistyped } });
    expect(status).toBe(200);
    expect(text).toContain(ada.id);
    expect(text).toContain(`value="${toHint(ada.apiKey)}"`);
    expect(reveals(text, mistyped)).toBe(false);
  });

  test("an external id that looks like a code still opens its key, and no list has it in an address", async () => {
    const externalId = hex("external id").slice(0, 32);
    const { id } = await admin.issue({ externalId });
    expect((await client.send("/search", { cookie, form: { q: externalId } })).location).toBe(
      `/console/keys/${id}`,
    );
  });
});

describe("a hostile text", () => {
  const texts: [kind: string, text: string, status: number][] = [
    ["10 kB of words", "word ".repeat(2_048), 400],
    ["10 kB of digits", "0123456789".repeat(1_024), 200],
    ["a line break", "two\nlines", 400],
    ["NUL", "a\u0000b", 400],
    ["half a character", "a\ud800b", 400],
    ["punctuation", "!!", 400],
    ["a wildcard", "%", 400],
    ["wildcards", "%zz_y%", 200],
    ["SQL", "' or 1=1; drop table keys --", 200],
    ["HTML", "<script>alert(1)</script>", 200],
    ["an operator of a search of words", "ada:* | grace & !x <-> 'y'", 200],
    ["right to left", "ada \u202egro", 200],
  ];
  for (const [kind, text, expected] of texts) {
    test(`${kind} finds nothing, and breaks nothing`, async () => {
      const found = await search(text);
      expect(found.status).toBe(expected);
      expect(found.text).not.toContain("<table");
      expect(found.text).not.toContain("<script>alert");
      expect(found.text.length).toBeLessThan(20_000);
    });
  }

  test("a text that is not sent finds nothing", async () => {
    expect(await client.send("/search", { cookie, form: {} })).toMatchObject({ status: 303 });
  });
});

test("every page has the box after the login, and none before it", async () => {
  const box = '<form method="post" action="/console/search">';
  for (const path of ["/overview", "/keys", "/audit", "/search", `/keys/${ada.id}`, "/nothing"])
    expect((await client.send(path, { cookie })).text).toContain(box);
  expect((await client.send("/enter")).text).not.toContain(box);
});
