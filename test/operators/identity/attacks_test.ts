/** Attacks on the login at the provider, with a provider that sends what no honest one would. */
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import dns from "node:dns";
import type { ServerResponse } from "node:http";
import { silentLog } from "../../../src/base/log.ts";
import { openProvider } from "../../../src/operators/identity/mod.ts";
import { listOperators, listSessions } from "../../../src/operators/mod.ts";
import { createConsoleClient } from "../../admin/console_client.ts";
import { startAdmin } from "../../support/admin.ts";
import { dumpText } from "../../support/dump.ts";
import { type Forgery, startForgingProvider } from "../../support/forging_provider.ts";
import { CLIENT, settingsFor, startConsoleWithProvider } from "../../support/identity_provider.ts";
import { orThrow, sentenceOf } from "../../support/issue.ts";
import { useForAll } from "../../support/use.ts";
import { createProviderBrowser, type ProviderBrowser } from "./provider_browser.ts";

const MINUTE_MS = 60_000;
const NOT_VALID = "Example Staff did not log you in: its answer is not valid for this login; try it again";

const admin = useForAll(() => startConsoleWithProvider(startForgingProvider));
const client = createConsoleClient(admin);
let codes = 0;

beforeEach(() => admin.clock.advance(MINUTE_MS + 1_000));
afterEach(() => admin.provider.forge({}));

/** Begins a login; returns the address of the callback as the provider would answer. */
async function begin(browser: ProviderBrowser, query = "") {
  const answer = await browser.send(`${admin.url}/console/enter/provider${query}`);
  expect(answer.status).toBe(303);
  const asked = new URL(answer.headers.get("location") ?? "").searchParams;
  admin.provider.expect(asked.get("nonce") ?? "");
  const code = `code-${++codes}-${crypto.randomUUID()}`;
  admin.provider.secrets.push(code, asked.get("state") ?? "", asked.get("nonce") ?? "");
  const callback = new URL(`${admin.url}/console/callback`);
  callback.search = `${new URLSearchParams({ code, state: asked.get("state") ?? "", iss: admin.provider.issuer })}`;
  return { asked, callback };
}

/** Logs in with one thing that is wrong; returns the status and the text of the page. */
async function attempt(forgery: Forgery, { query = "", change = (_callback: URL) => {} } = {}) {
  const browser = createProviderBrowser(admin.url);
  admin.provider.forge(forgery);
  const { callback } = await begin(browser, query);
  change(callback);
  const answer = await browser.send(callback.href);
  return { status: answer.status, text: await answer.text(), browser };
}

/** Expects that the library found this fault, and no other one. */
async function expectRefused(detail: string, forgery: Forgery, how?: Parameters<typeof attempt>[1]) {
  const sessions = await listSessions(admin.database, { now: admin.clock.now() });
  const lines = admin.logLines.length;
  const { status, text, browser } = await attempt(forgery, how);
  expect([status, text.includes(NOT_VALID)]).toEqual([401, true]);
  expect(await browser.open("/keys")).toBe(303);
  expect(await listSessions(admin.database, { now: admin.clock.now() })).toEqual(sessions);
  const logged = admin.logLines.slice(lines).join("");
  expect(/"detail":"(\w+)"/.exec(logged)?.[1]).toBe(detail);
}

const CLAIM = "OAUTH_JWT_CLAIM_COMPARISON_FAILED";
const TIME = "OAUTH_JWT_TIMESTAMP_CHECK_FAILED";
const INVALID = "OAUTH_INVALID_RESPONSE";

/** Reads how many seconds before the latest session the person proved who they are. */
async function readProofAge() {
  const [row] = await admin.database.query<{ seconds: number }>(
    (sql) => sql`
      select round(extract(epoch from created_at - proved_at))::int as seconds
        from operator_sessions order by created_at desc, id desc limit 1`,
  );
  return row?.seconds;
}

const soon = (seconds: number) => Math.floor(admin.clock.nowMs() / 1_000) + seconds;

describe("An ID token is refused", () => {
  const forged: readonly [string, string, Forgery | (() => Forgery)][] = [
    ["of another client", CLAIM, { claims: { aud: "another-client" } }],
    [
      "of several clients, issued to another one",
      CLAIM,
      { claims: { aud: [CLIENT.id, "another-client"], azp: "another-client" } },
    ],
    ["with the nonce of another login", CLAIM, { claims: { nonce: "another" } }],
    ["without a nonce", INVALID, { without: ["nonce"] }],
    ["of another issuer", CLAIM, { claims: { iss: "https://login.example.org" } }],
    ["without a subject", INVALID, { without: ["sub"] }],
    ["that has expired", TIME, () => ({ claims: { exp: soon(-120) } })],
    ["that is not valid yet", TIME, () => ({ claims: { nbf: soon(3_600) } })],
    ["with alg none", INVALID, { signed: "not at all" }],
    ["signed with the secret of the client", INVALID, { signed: "with the client secret" }],
    ["signed by another key", INVALID, { signed: "by another key" }],
  ];
  for (const [what, detail, forgery] of forged)
    test(what, () => expectRefused(detail, typeof forgery === "function" ? forgery() : forgery));

  test("if groups come from another subject's information", () =>
    expectRefused("OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED", {
      without: ["groups"],
      userinfo: { sub: "another", groups: ["licensing-admins"] },
    }));

  test("without a fresh proof, if one was asked for", async () => {
    const query = "?fresh=1";
    await expectRefused(INVALID, { without: ["auth_time"] }, { query });
    await expectRefused(TIME, { claims: { auth_time: soon(-600) } }, { query });
    expect((await attempt({ claims: { auth_time: soon(-10) } }, { query })).status).toBe(200);
  });
});

describe("The answer of the provider is refused", () => {
  test("with a state or a code that is there twice", async () => {
    for (const name of ["state", "code"])
      await expectRefused(
        INVALID,
        {},
        { change: ({ searchParams }) => searchParams.append(name, "another") },
      );
  });

  test("with a state that was swapped or is missing, and the login that began goes on", async () => {
    const browser = createProviderBrowser(admin.url);
    const { callback } = await begin(browser);
    const exchanges = admin.provider.exchanges.length;
    for (const state of ["another", undefined]) {
      const changed = new URL(callback);
      if (state === undefined) changed.searchParams.delete("state");
      else changed.searchParams.set("state", state);
      expect((await browser.send(changed.href)).status).toBe(401);
    }
    expect(admin.provider.exchanges).toHaveLength(exchanges);
    expect((await browser.send(callback.href)).status).toBe(200);
  });

  test("with another issuer, or without it", async () => {
    const other = (callback: URL) => callback.searchParams.set("iss", "https://login.example.org");
    await expectRefused(INVALID, {}, { change: other });
    await expectRefused(INVALID, {}, { change: (callback) => callback.searchParams.delete("iss") });
  });

  test("in another browser, also in one that began a login of its own", async () => {
    const [victim, attacker] = [createProviderBrowser(admin.url), createProviderBrowser(admin.url)];
    const { callback } = await begin(attacker);
    const exchanges = admin.provider.exchanges.length;
    const stranger = await victim.send(callback.href);
    expect([stranger.status, await stranger.text()]).toEqual([
      401,
      expect.stringContaining("did not begin in this browser"),
    ]);
    await begin(victim);
    expect((await victim.send(callback.href)).status).toBe(401);
    // No code was sent to the provider.
    expect(admin.provider.exchanges).toHaveLength(exchanges);
  });

  test("of one tab never for that of another, and both can end", async () => {
    const browser = createProviderBrowser(admin.url);
    const [first, second] = [await begin(browser), await begin(browser)];
    const swapped = new URL(first.callback);
    swapped.searchParams.set("state", second.asked.get("state") ?? "");
    admin.provider.expect(first.asked.get("nonce") ?? "");
    expect((await browser.send(swapped.href)).status).toBe(401);
    expect((await browser.send(first.callback.href)).status).toBe(200);
    expect((await browser.send(second.callback.href)).status).toBe(401);
    const third = await begin(browser);
    const fourth = await begin(browser);
    expect((await browser.send(fourth.callback.href)).status).toBe(200);
    admin.provider.expect(third.asked.get("nonce") ?? "");
    expect((await browser.send(third.callback.href)).status).toBe(200);
  });

  test("a second time, and after ten minutes", async () => {
    const browser = createProviderBrowser(admin.url);
    const { callback } = await begin(browser);
    expect((await browser.send(callback.href)).status).toBe(200);
    expect((await browser.send(callback.href)).status).toBe(401);
    const late = await begin(browser);
    admin.clock.advance(10 * MINUTE_MS);
    expect((await browser.send(late.callback.href)).status).toBe(401);
  });

  test("with a cookie that was made up", async () => {
    const browser = createProviderBrowser(admin.url);
    const { callback } = await begin(browser);
    const [name = ""] = browser.cookies.keys();
    const [session] = (await client.logIn("admin")).cookie.split("=").slice(1);
    for (const value of ["", "x", session ?? "", JSON.stringify({ state: "x" })]) {
      browser.cookies.set(name, { value, path: "/console/callback" });
      expect((await browser.send(callback.href)).status).toBe(401);
    }
  });

  test("that says that the person may not, without the provider's own words", async () => {
    const refuse = (callback: URL) => {
      callback.searchParams.delete("code");
      callback.searchParams.set("error", "access_denied");
      callback.searchParams.set("error_description", "Call +1 555 0100 now");
    };
    const { status, text } = await attempt({}, { change: refuse });
    expect([status, text]).toEqual([401, expect.stringContaining("it answered access_denied; try it again")]);
    expect(text).not.toContain("555");
    const markup = (callback: URL) => callback.searchParams.set("error", "<b>you</b>");
    expect((await attempt({}, { change: markup })).text).not.toContain("<b>you");
  });
});

describe("A login", () => {
  test("sends the verifier of PKCE whose challenge the provider got, and no secret in an address", async () => {
    const browser = createProviderBrowser(admin.url);
    const { asked, callback } = await begin(browser);
    await browser.send(callback.href);
    const { body, authorization } = admin.provider.exchanges.at(-1) ?? { body: new URLSearchParams() };
    const digest = await crypto.subtle.digest("SHA-256", Buffer.from(body.get("code_verifier") ?? ""));
    expect(asked.get("code_challenge_method")).toBe("S256");
    expect(asked.get("code_challenge")).toBe(Buffer.from(digest).toString("base64url"));
    expect(asked.get("redirect_uri")).toBe(`${admin.url}/console/callback`);
    const basic = `${CLIENT.id}:${encodeURIComponent(CLIENT.secret).replaceAll("%20", "+")}`;
    expect(authorization).toBe(`Basic ${Buffer.from(basic).toString("base64")}`);
  });

  test("at a provider whose clock is ahead proves nothing in the future, nor later than it was", async () => {
    const iat = soon(600);
    const claims = { sub: "ahead", iat, exp: iat + 300 };
    expect((await attempt({ claims: { ...claims, auth_time: iat + 3_000 } })).status).toBe(200);
    expect(await readProofAge()).toBe(0);
    expect((await attempt({ claims: { ...claims, auth_time: iat - 590 } })).status).toBe(200);
    expect(await readProofAge()).toBe(590);
  });

  test("proves nothing by the time that the information about the person has", async () => {
    for (const auth_time of [soon(0), "today"]) {
      const userinfo = { sub: "subject-1", groups: ["sales"], auth_time };
      const { status } = await attempt({ without: ["auth_time", "groups"], userinfo });
      expect(status).toBe(200);
      expect(await readProofAge()).toBeGreaterThan(1e9);
    }
  });

  test("of a subject that is no text, or too long, is refused", async () => {
    for (const sub of ["a\u0000", "a\ud800", "a".repeat(256)]) {
      const { status, text } = await attempt({ claims: { sub } });
      expect([status, text]).toEqual([503, expect.stringContaining("sent a subject that is no text")]);
    }
  });

  test("keeps its state for ten minutes, for the callback alone, and behind TLS in a Secure cookie", async () => {
    const kept = "_[\\w-]{8}=[^;]+; Max-Age=600; Path=/console/callback; HttpOnly; ";
    const cookies = [
      ["https://admin.example.org", `^__Secure-claviger_443_login${kept}Secure; SameSite=Lax$`],
      ["http://localhost:8081", `^claviger_8081_login${kept}SameSite=Lax$`],
    ] as const;
    for (const [adminUrl, form] of cookies) {
      const context = { clock: admin.clock, log: silentLog };
      const provider = orThrow(openProvider(settingsFor(adminUrl, admin.provider.issuer), context));
      const there = await startAdmin({
        on: admin.testDatabase,
        clock: admin.clock,
        admin: { adminUrl, provider },
      });
      const headers = { host: new URL(adminUrl).host };
      const answer = await fetch(`${there.url}/console/enter/provider`, { redirect: "manual", headers });
      expect(answer.headers.get("set-cookie")).toMatch(new RegExp(form));
      await there.close();
    }
  });

  test("of a subject under another issuer is another person", async () => {
    await attempt({ claims: { sub: "same", preferred_username: "nina" } });
    await admin.database.query(
      (sql) => sql`update operators set issuer = 'https://login.example.org' where subject = 'same'`,
    );
    await attempt({ claims: { sub: "same", preferred_username: "nina" } });
    const names = (await listOperators(admin.database)).map(({ name }) => name);
    expect(names).toContain("nina");
    expect(names).toContain("nina-2");
  });

  test("leads to no other site", async () => {
    for (const to of [
      "//evil.example",
      "https://evil.example/",
      "/console/../evil",
      "/\\evil.example",
      "javascript:alert(1)",
    ]) {
      const { text } = await attempt({}, { query: `?${new URLSearchParams({ to })}` });
      expect([to, text.includes('content="0; url=/console/"')]).toEqual([to, true]);
    }
  });

  test("does not begin or end because another website leads here", async () => {
    for (const path of ["/enter/provider", "/enter/leave"]) {
      const { status, headers } = await client.send(path, { headers: { "sec-fetch-site": "cross-site" } });
      expect([status, headers.get("location"), headers.get("set-cookie")]).toEqual([403, null, null]);
    }
  });

  test("takes no groups but texts", async () => {
    const strange = [{ admin: true }, [["licensing-admins"]], "licensing-admins,support", 7, null, [{}]];
    for (const groups of strange)
      expect([groups, (await attempt({ claims: { groups } })).status]).toEqual([groups, 403]);
    expect((await attempt({ claims: { groups: "licensing-admins" } })).status).toBe(200);
  });
});

test("Ten failures a minute of an address group get 429, and a valid code still logs in", async () => {
  const statuses: number[] = [];
  for (let n = 0; n < 12; n++) statuses.push((await client.send("/callback?code=x&state=y")).status);
  expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
  expect((await client.send("/enter", { form: { code: "0".repeat(32) } })).status).toBe(429);
  const { cookie } = await client.logIn("viewer", "root");
  expect(await client.isLoggedIn(cookie)).toBe(true);
});

describe("An address gets 429 and the provider no request more than 60 times a minute", () => {
  test("also by the cookie of one login that is sent again and again", async () => {
    const browser = createProviderBrowser(admin.url);
    const { callback } = await begin(browser);
    const cookies = [...browser.cookies];
    const exchanges = admin.provider.exchanges.length;
    for (let sent = 0; sent < 70; sent++) {
      for (const [name, cookie] of cookies) browser.cookies.set(name, cookie);
      await browser.send(callback.href);
    }
    // The beginning was a step, too.
    expect(admin.provider.exchanges).toHaveLength(exchanges + 59);
  });

  test("also by the logout", async () => {
    admin.provider.forge({
      instead: {
        path: "/.well-known/openid-configuration",
        answer: (response) => void response.writeHead(404).end(),
      },
    });
    const statuses: number[] = [];
    for (let sent = 0; sent < 61; sent++) statuses.push((await client.send("/enter/leave")).status);
    expect([statuses[59], statuses[60]]).toEqual([503, 429]);
  });
});

describe("A provider that fails", () => {
  const failing: readonly [string, Forgery["instead"], string][] = [
    ["without an answer", { path: "/token", answer: () => {} }, "does not answer: not within 5 s"],
    [
      "that closes the connection",
      { path: "/jwks", answer: (response) => void response.destroy() },
      "does not answer",
    ],
    [
      "whose answer has no end",
      {
        path: "/token",
        answer(response) {
          const flood = setInterval(() => response.write("x".repeat(100_000)), 1);
          response.on("close", () => clearInterval(flood));
        },
      },
      "does not answer: its answer is too long",
    ],
    [
      "whose token endpoint is out of order",
      { path: "/token", answer: (response) => void response.writeHead(502).end("Bad gateway") },
      "does not answer: it answered with the status 502",
    ],
    [
      "whose keys cannot be read",
      { path: "/jwks", answer: (response) => void response.writeHead(500).end("Error") },
      "does not answer: it answered with the status 500",
    ],
    [
      "that knows no such client",
      {
        path: "/token",
        answer(response) {
          response.writeHead(401, { "Content-Type": "application/json", "WWW-Authenticate": "Basic" });
          response.end('{"error":"invalid_client"}');
        },
      },
      "CLAVIGER_OIDC_CLIENT_ID or the secret of the client is wrong",
    ],
    [
      "that leads elsewhere",
      {
        path: "/.well-known/openid-configuration",
        answer: (response) => void response.writeHead(302, { Location: "http://127.0.0.1:1/" }).end(),
      },
      "is no OpenID provider with the issuer",
    ],
  ];
  for (const [what, instead, sentence] of failing)
    test(`${what} costs only this way of login, and the page says so`, async () => {
      const browser = createProviderBrowser(admin.url);
      const { callback } = await begin(browser);
      admin.provider.forge({ ...(instead && { instead }) });
      const beganMs = performance.now();
      const answer = await browser.send(callback.href);
      const text = await answer.text();
      expect([answer.status, text.includes(sentence)]).toEqual([503, true]);
      expect(performance.now() - beganMs).toBeLessThan(9_000);
      expect(text).toContain("Login code");
      const { cookie } = await client.logIn("viewer", "root");
      expect(await client.isLoggedIn(cookie)).toBe(true);
    }, 15_000);
});

test("A provider that names another issuer than that of the setting is refused, also at a host of Microsoft", async () => {
  type Done = (error: null, addresses: object[]) => void;
  const answer = (_: string, __: object, done: Done) => done(null, [{ address: "127.0.0.1", family: 4 }]);
  const lookUp = spyOn(dns, "lookup").mockImplementation(answer as never);
  try {
    const issuer = `http://staff.b2clogin.com:${new URL(admin.provider.issuer).port}`;
    const context = { clock: admin.clock, log: silentLog };
    const provider = orThrow(openProvider(settingsFor(admin.url, issuer), context));
    const refused = `Example Staff is no OpenID provider with the issuer ${issuer}`;
    expect(sentenceOf(await provider.examine())).toStartWith(refused);
    expect(lookUp).toHaveBeenCalled();

    // The organisations of one host are different issuers.
    const path = "/staff/v2.0/.well-known/openid-configuration";
    const examineNamed = async (named: string) => {
      const document = JSON.stringify({
        issuer: `${issuer}${named}`,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
      });
      const answer = (response: ServerResponse) =>
        void response.setHeader("Content-Type", "application/json").end(document);
      admin.provider.forge({ instead: { path, answer } });
      const tenant = openProvider(settingsFor(admin.url, `${issuer}/staff/v2.0`), context);
      return await orThrow(tenant).examine();
    };
    expect(await examineNamed("/staff/v2.0")).toEqual({ hasLogout: false });
    for (const named of ["/guests/v2.0", "/{tenantid}/v2.0", "/staff", ""])
      expect(sentenceOf(await examineNamed(named))).toStartWith(`${refused}/staff/v2.0`);
  } finally {
    lookUp.mockRestore();
  }
});

test("No log line and no table has a code, a token, a state or a secret of the provider", async () => {
  await attempt({});
  await attempt({ claims: { nonce: "another" } });
  await attempt({ signed: "not at all" });
  const everything = `${admin.logLines.join("\n")}${await dumpText(admin.database)}`;
  expect(everything.includes("mallory")).toBe(true);
  expect(admin.provider.secrets.length).toBeGreaterThan(10);
  for (const secret of [...admin.provider.secrets, CLIENT.secret])
    expect([secret, everything.includes(secret)]).toEqual([secret, false]);
});
