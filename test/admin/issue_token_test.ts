/** Tokens that an admin issues, renews and resumes in the console, with every option of the commands. */
import { describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { listTokens, PRESET_NAMES, PRESETS, SCOPES, tokenPattern } from "../../src/operators/mod.ts";
import { BRAND } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { newName } from "./sample_requests.ts";
import { attributesOf } from "./texts_of.ts";

const TOKEN = new RegExp(tokenPattern(BRAND).source.slice(1, -1), "g");
const ISSUE = "/access/issue-token";

const admin = useAdmin();
const client = createConsoleClient(admin);

const findToken = async (wanted: string) =>
  (await listTokens(admin.database, { now: admin.clock.now() })).find(({ name }) => name === wanted);
const whoami = async (token: string) => (await admin.call("GET", "/whoami", { token })).status;
/** The tokens that a page shows. */
const shownIn = (text: string) => [...new Set(text.match(TOKEN))];

async function issue(...fields: [string, string][]) {
  const { cookie } = await client.logIn("admin");
  const answer = await client.send(ISSUE, { cookie, form: fields });
  return { cookie, ...answer, tokens: shownIn(answer.text) };
}

describe("The form that issues a token", () => {
  test("has a box for every scope", async () => {
    const { cookie } = await client.logIn("admin");

    const { text } = await client.send("/access", { cookie });

    const boxes = [...text.matchAll(/name="scopes" value="([^"]+)"/g)].map(([, scope]) => scope);
    expect(boxes).toEqual([...SCOPES]);
    expect(text).toContain('value="keys:revoke"/> keys:revoke: revoke keys</label>');
    expect(text).toContain("a day alone is its last second, UTC");
  });

  test("marks an expiry that has passed, and a name that was used before", async () => {
    const name = newName();
    const marked = async (...fields: [string, string][]) => {
      const { status, text } = await issue(["name", name], ["preset", "pipeline"], ...fields);
      return [status, ...attributesOf(text, "[aria-invalid=true]", "id")];
    };
    expect(await marked(["expires_at", "2020-01-31"])).toEqual([400, "issue-token-expires_at"]);
    expect(await marked()).toEqual([200]);
    expect(await marked()).toEqual([409, "issue-token-name"]);
  });

  test("marks an expiry of a renewal that has passed", async () => {
    const name = newName();
    const { cookie } = await issue(["name", name], ["preset", "pipeline"]);
    const renewed = await client.send(`/access/tokens/${name}/renew`, {
      cookie,
      form: { expires_at: "2020-01-31" },
    });
    expect(attributesOf(renewed.text, "[aria-invalid=true]", "id")).toEqual(["renew-expires_at"]);
  });

  test("has each preset with its sentence, and its scopes where the boxes are folded", async () => {
    const { cookie } = await client.logIn("admin");

    const { text } = await client.send("/access", { cookie });

    for (const name of PRESET_NAMES) {
      const { meaning, scopes } = PRESETS[name];
      expect(text).toContain(`name="preset" value="${name}"/> ${name}: ${meaning}</label>`);
      expect(text).toMatch(
        new RegExp(`<details><summary>Scopes</summary>.*<li>${name}: ${scopes.join(", ")}</li>`),
      );
    }
  });

  test("issues one with just the scopes of its preset, and of the boxes beside it", async () => {
    const [plain, more] = [newName(), newName()];

    await issue(["name", plain], ["preset", "pipeline"]);
    await issue(["name", more], ["preset", "pipeline"], ["scopes", "status:read"], ["scopes", "models:read"]);

    expect((await findToken(plain))?.scopes).toEqual(["models:read", "models:write"]);
    expect((await findToken(more))?.scopes).toEqual(["models:read", "models:write", "status:read"]);
  });

  test("issues one with every option of the command, and explains it", async () => {
    const name = newName();

    const { status, text, headers, tokens } = await issue(
      ["name", ` ${name} `],
      ["scopes", "keys:read"],
      ["scopes", "keys:issue"],
      ["tiers", "free"],
      ["tiers", "research"],
      ["mode", "live"],
      ["from", "127.0.0.0/8, 2001:db8::1"],
      ["expires_at", "2030-01-31T12:00:00Z"],
      ["reason", "for the shop"],
    );

    expect({ status, cache: headers.get("cache-control") }).toEqual({ status: 200, cache: "no-store" });
    expect(tokens).toHaveLength(1);
    expect(await whoami(tokens[0] ?? "")).toBe(200);
    expect(await findToken(name)).toMatchObject({
      scopes: ["keys:read", "keys:issue"],
      restriction: { tiers: ["free", "research"], mode: "live", joins: false },
      sources: ["127.0.0.0/8", "2001:db8::1"],
      expiresAt: new Date("2030-01-31T12:00:00Z"),
      createdBy: expect.stringMatching(/^operator:operator-\d+$/),
    });
    expect(text).toContain("The token sees, changes and issues only keys of its tiers and its mode.");
    const [row] = await listAudit(admin.database, { limit: 1 });
    expect(row).toMatchObject({ action: "token.issue", door: "console", reason: "for the shop" });
  });

  test("asks for a preset or a scope if none is chosen, with the scopes open, and issues no token", async () => {
    const name = newName();
    const { status, text } = await issue(["name", name], ["preset", ""]);
    expect(status).toBe(400);
    expect(text).toContain(
      'id="issue-token-scopes-error">Choose what the program does, or at least one scope<',
    );
    expect(text).toContain('<details open=""><summary>Scopes</summary>');
    expect(await findToken(name)).toBeUndefined();
  });

  test("issues one without limits if only its name and a scope are given", async () => {
    const name = newName();

    const { tokens, text, cookie } = await issue(["name", name], ["scopes", "status:read"]);

    expect(tokens).toHaveLength(1);
    expect(text).toContain(`The API is at <code>${admin.url}/admin/v1</code>.`);
    expect(text).toContain(`Bearer $TOKEN&quot; ${admin.url}/admin/v1/whoami</code>`);
    expect((await client.send("/access", { cookie })).text).toContain("<th>Expires</th>");
    expect(await findToken(name)).toMatchObject({
      restriction: { tiers: undefined, mode: undefined },
      sources: undefined,
      expiresAt: null,
    });
  });

  test("issues one that adds keys to existing accounts, and says what that asks of the program", async () => {
    const name = newName();
    const { text } = await issue(
      ["name", name],
      ["scopes", "keys:issue"],
      ["scopes", "accounts:join"],
      ["tiers", "free"],
    );
    expect(text).toContain("It adds keys to existing accounts: send only an e-mail that you have verified");
    expect(await findToken(name)).toMatchObject({ restriction: { joins: true } });
  });

  test("makes no second token if it is sent again, and says that the name was used", async () => {
    const name = newName();
    const { cookie, tokens } = await issue(["name", name], ["scopes", "keys:read"]);

    const again = await client.send(ISSUE, { cookie, form: { name, scopes: "keys:read" } });

    expect({ status: again.status, tokens: shownIn(again.text) }).toEqual({ status: 409, tokens: [] });
    expect(again.text).toContain(`the name ${name} was used before; choose another name`);
    expect(await whoami(tokens[0] ?? "")).toBe(200);
  });

  test("refuses what the command refuses, marks the fields, and shows again what was entered", async () => {
    const wrong = await issue(["name", "Shop 1"], ["from", "10.0.0.0/99"], ["expires_at", "soon"]);
    expect({ status: wrong.status, tokens: wrong.tokens }).toEqual({ status: 400, tokens: [] });
    for (const error of [
      'id="issue-token-name-error">It must be 1 to 64 lowercase letters',
      'id="issue-token-from-error">It must be 1 to 32 addresses and networks',
      'id="issue-token-expires_at-error">It must be a day such as 2027-01-31, or an ISO 8601 timestamp',
      'value="10.0.0.0/99"',
    ])
      expect(wrong.text).toContain(error);

    const wide = await issue(
      ["name", newName()],
      ["scopes", "usage:read"],
      ["scopes", "audit:read"],
      ["tiers", "enterprise"],
    );
    expect(wide.text).toContain("a token that is restricted to tiers or to a mode can have only keys:read");
    const checked = [...wide.text.matchAll(/value="([^"]+)" checked=""/g)].map(([, value]) => value);
    expect(checked).toEqual(["usage:read", "audit:read", "enterprise"]);

    const past = await issue(["name", newName()], ["scopes", "keys:read"], ["expires_at", "2020-01-01"]);
    expect(past.text).toContain("the expiry lies in the past");
  });
});

describe("The page of a token", () => {
  test.each([
    ["", new Date("2031-01-01T00:00:00Z")],
    ["2032-06-30", new Date("2032-06-30T23:59:59Z")],
    ["never", null],
  ])("renews the token with the expiry “%s”: the old text is refused at once", async (entered, expiresAt) => {
    const name = newName();
    const old = await admin.token({ name, expiresAt: new Date("2031-01-01T00:00:00Z") });
    const { cookie } = await client.logIn("admin");

    const { status, text } = await client.send(`/access/tokens/${name}/renew`, {
      cookie,
      form: { expires_at: entered, reason: "found in a log" },
    });

    const [renewed = "", ...others] = shownIn(text);
    expect({ status, others }).toEqual({ status: 200, others: [] });
    expect({ old: await whoami(old), renewed: await whoami(renewed) }).toEqual({ old: 401, renewed: 200 });
    expect((await findToken(name))?.expiresAt).toEqual(expiresAt);
  });

  test("resumes a token that a restore disabled, and offers it for no other", async () => {
    const name = newName();
    const token = await admin.token({ name });
    const { cookie } = await client.logIn("admin");
    const open = async () => (await client.send(`/access/tokens/${name}`, { cookie })).text;
    expect(await open()).not.toContain(`/access/tokens/${name}/resume"`);
    await admin.database.query((sql) => sql`update tokens set state = 'disabled' where name = ${name}`);
    expect(await open()).toContain(
      `<a href="/console/access/tokens/${name}?open=resume#resume-form">Resume it</a>`,
    );

    const { location } = await client.send(`/access/tokens/${name}/resume`, { cookie, form: {} });

    const after = await client.send((location ?? "").replace("/console", ""), { cookie });
    expect(after.text).toContain("state: disabled → active.");
    expect(await whoami(token)).toBe(200);
  });
});

test("the text of a token is in no other page, address, log line or row", async () => {
  const name = newName();
  const { cookie, tokens } = await issue(["name", name], ["scopes", "keys:read"]);
  const renewed = await client.send(`/access/tokens/${name}/renew`, { cookie, form: {} });
  const texts = [...tokens, ...shownIn(renewed.text)];
  expect(texts).toHaveLength(2);

  const pages = await Promise.all(
    [`/access/tokens/${name}?done=shown`, "/access", "/audit"].map((path) => client.send(path, { cookie })),
  );
  const rows = await listAudit(admin.database);
  const stored = await admin.database.query((sql) => sql`select * from tokens`);

  expect(pages[0]?.text).toContain("It is not shown again: rotate the key, or renew the token, for another.");
  const seen = JSON.stringify([pages.map(({ text }) => text), rows, stored, admin.logLines]);
  for (const text of texts) expect(seen).not.toContain(text);
});
