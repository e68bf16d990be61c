/** Attacks on the login at the provider, with a provider that sends what no honest one would. */
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import dns from "node:dns";
import type { ServerResponse } from "node:http";
import { silentLog } from "../../../src/base/log.ts";
import { openProvider } from "../../../src/operators/identity/mod.ts";
import { listOperators, listSessions } from "../../../src/operators/mod.ts";
import { createConsoleClient } from "../../admin/console_client.ts";
import { startAdmin } from "../../support/admin.ts";
import { createTestClock } from "../../support/clock.ts";
import { dumpText } from "../../support/dump.ts";
import { type Forgery, startForgingProvider } from "../../support/forging_provider.ts";
import { CLIENT, settingsFor, startConsoleWithProvider } from "../../support/identity_provider.ts";
import { orThrow, sentenceOf } from "../../support/issue.ts";
import { useForAll } from "../../support/use.ts";
import { createProviderBrowser, type ProviderBrowser } from "./provider_browser.ts";

const MINUTE_MS = 60_000;
const NOT_LOGGED_IN = "Example Staff did not log you in: ";
const NOT_VALID = "its answer is not valid for this login; try it again";

// Stands, because several tests compare seconds.
const clock = createTestClock(undefined, { stands: true });
const admin = useForAll(() => startConsoleWithProvider(startForgingProvider, { clock }));
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

interface Refused {
  /** What the page says. */
  readonly why?: string;
  readonly how?: Parameters<typeof attempt>[1];
}

/** Expects that the library found this fault, and no other one. */
async function expectRefused(detail: string, forgery: Forgery, { why = NOT_VALID, how }: Refused = {}) {
  const sessions = await listSessions(admin.database, { now: admin.clock.now() });
  const lines = admin.logLines.length;
  const { status, text, browser } = await attempt(forgery, how);
  expect([status, text]).toEqual([401, expect.stringContaining(NOT_LOGGED_IN + why)]);
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
    ["without a subject", INVALID, { without: ["sub"] }],
    ["that has expired", TIME, () => ({ claims: { exp: soon(-120) } })],
    ["that is not valid yet", TIME, () => ({ claims: { nbf: soon(3_600) } })],
    ["signed by another key", INVALID, { signed: "by another key" }],
  ];
  for (const [what, detail, forgery] of forged)
    test(what, () => expectRefused(detail, typeof forgery === "function" ? forgery() : forgery));

  test("of another issuer, and the page names both", () => {
    const issuer = "https://login.example.org";
    const why = `it is ${issuer} in its answer, but announces the issuer ${admin.provider.issuer}.`;
    return expectRefused(CLAIM, { claims: { iss: issuer } }, { why });
  });

  test("signed by another algorithm, and the page names both", async () => {
    const another = (name: string) => `it signed its ID token with ${name}, but announces RS256.`;
    await expectRefused(INVALID, { signed: "not at all" }, { why: another("none") });
    await expectRefused(INVALID, { signed: "with the client secret" }, { why: another("HS256") });
  });

  test("signed with the secret of the client, also if the provider announces that", async () => {
    const why = "it signed its ID token with HS256, but this service takes RS256, PS256, ES256 and EdDSA.";
    const metadata = { id_token_signing_alg_values_supported: ["HS256"] };
    await expectRefused(
      "OAUTH_UNSUPPORTED_OPERATION",
      { signed: "with the client secret", metadata },
      { why },
    );
  });

  test("if groups come from another subject's information", () =>
    expectRefused("OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED", {
      without: ["groups"],
      userinfo: { sub: "another", groups: ["licensing-admins"] },
    }));

  test("without a fresh proof, if one was asked for", async () => {
    const query = "?fresh=1";
    await expectRefused(INVALID, { without: ["auth_time"] }, { how: { query } });
    await expectRefused(TIME, { claims: { auth_time: soon(-600) } }, { how: { query } });
    expect((await attempt({ claims: { auth_time: soon(-10) } }, { query })).status).toBe(200);
  });
});

describe("The answer of the provider is refused", () => {
  test("with a state or a code that is there twice", async () => {
    for (const name of ["state", "code"])
      await expectRefused(
        INVALID,
        {},
        { how: { change: ({ searchParams }) => searchParams.append(name, "another") } },
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
    const why = `it is https://login.example.org in its answer, but announces the issuer ${admin.provider.issuer}.`;
    await expectRefused(INVALID, {}, { why, how: { change: other } });
    await expectRefused(INVALID, {}, { how: { change: (callback) => callback.searchParams.delete("iss") } });
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
    expect(text).not.toContain("555 0100");
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
    const now = soon(0);
    const claims = { sub: "ahead", iat: now + 600, exp: now + 900 };
    expect((await attempt({ claims: { ...claims, auth_time: now + 3_600 } })).status).toBe(200);
    expect(await readProofAge()).toBe(0);
    expect((await attempt({ claims: { ...claims, auth_time: now + 10 } })).status).toBe(200);
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

describe("The groups of a person", () => {
  /** Logs in without an accepted group; returns what the page says, and the line of the log. */
  async function refuse(forgery: Forgery) {
    const { status, text } = await attempt(forgery);
    expect(status).toBe(403);
    return {
      text,
      logged: JSON.parse(admin.logLines.findLast((line) => line.includes("without a group")) ?? ""),
    };
  }

  const userinfo = { sub: "subject-1", groups: ["sales"] };

  test("come from the user information if the token has null, which is no group", async () => {
    expect((await attempt({ claims: { groups: null }, userinfo })).status).toBe(200);
    const { text, logged } = await refuse({
      claims: { groups: null },
      userinfo: { ...userinfo, groups: null },
    });
    expect(text).toContain("may log in: licensing-admins, support, sales; it sent no claim groups.");
    expect(logged).toMatchObject({ sent: "no claim groups", subject: "subject-1" });
  });

  test("are asked for if the provider has too many of them for the token, and the page says so", async () => {
    const claims = {
      _claim_names: { groups: "src1" },
      _claim_sources: { src1: { endpoint: "https://graph" } },
    };
    for (const sent of [claims, { hasgroups: true }, { hasgroups: "true" }]) {
      const { text, logged } = await refuse({ claims: sent, without: ["groups"] });
      expect(text).toContain("Example Staff does not send your groups, because there are too many of them");
      expect(logged).toMatchObject({ sent: "too many groups for the token" });
      expect((await attempt({ claims: sent, without: ["groups"], userinfo })).status).toBe(200);
    }
    const others = { _claim_names: { address: "src1" } };
    expect((await refuse({ claims: others, without: ["groups"] })).text).toContain("it sent no claim groups");
  });

  test("with a path that the setting does not have are named", async () => {
    for (const group of ["/licensing-admins", "/staff/licensing-admins"]) {
      const { text } = await refuse({ claims: { groups: ["others", group] } });
      expect(text).toContain(
        `Example Staff sends the group ${group}, but CLAVIGER_OIDC_ROLES has licensing-admins: write it as the provider sends it.`,
      );
    }
    expect((await refuse({ claims: { groups: ["no-licensing-admins"] } })).text).toContain("in none of the");
  });

  test("that have no role are in the log, five of them, shortened and without keys", async () => {
    const key = `svc_live_${"0a".repeat(24)}`;
    const groups = ["a\nb", "x".repeat(300), `${key}/staff`, "d", "e", "secret-of-the-sixth"];
    const { text, logged } = await refuse({ claims: { groups } });
    expect(logged).toMatchObject({
      sent: "6 groups",
      groups: `a\\nb, ${"x".repeat(60)}…, [key]/staff, d, e`,
    });
    expect(text).not.toContain("xxx");
  });

  test("come from the claim of the setting, and the login asks for the scopes of the setting", async () => {
    const context = { clock: admin.clock, log: silentLog };
    const scopes = "openid email https://example.org/groups";
    for (const groupsClaim of ["cognito:groups", "https://example.org/groups", "realm.roles"]) {
      const settings = { ...settingsFor(admin.url, admin.provider.issuer), groupsClaim, scopes };
      const provider = orThrow(openProvider(settings, context));
      const begun = orThrow(await provider.begin(false));
      expect(new URL(begun.address).searchParams.get("scope")).toBe(scopes);
      admin.provider.expect(begun.state.nonce);
      admin.provider.forge({ claims: { groups: ["sales"], [groupsClaim]: ["support"] } });
      const { state } = begun.state;
      const query = new URLSearchParams({ code: "code", state, iss: admin.provider.issuer });
      const person = orThrow(await provider.finish(query, begun.state));
      expect(person.access).toEqual({ role: "editor" });
    }
  });
});

test("The name of an operator comes from the e-mail or the subject if the provider sends no plain one", async () => {
  const named: readonly [object, string][] = [
    [{ sub: "s-1", preferred_username: "Ольга", email: "olga.k@example.org" }, "olga.k"],
    [{ sub: "s-2", preferred_username: null }, "s-2"],
    [{ sub: "s-3", preferred_username: "", email: 7 }, "s-3"],
  ];
  for (const [claims, name] of named) {
    const { text } = await attempt({ claims: { ...claims, groups: ["sales"] } });
    expect(text).toContain(`Go on as ${name}<`);
  }
});

test("The signed token counts before the information about the person", async () => {
  const claims = { sub: "s-4", preferred_username: "of-the-token" };
  const userinfo = { sub: "s-4", preferred_username: "of-the-information", groups: ["sales"] };
  const { text } = await attempt({ claims, without: ["groups"], userinfo });
  expect(text).toContain("Go on as of-the-token<");
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
  test("not even one more by the cookie of a login that is sent again and again", async () => {
    const browser = createProviderBrowser(admin.url);
    const { callback } = await begin(browser);
    const cookies = [...browser.cookies];
    const exchanges = admin.provider.exchanges.length;
    const statuses: number[] = [];
    for (let sent = 0; sent < 3; sent++) {
      for (const [name, cookie] of cookies) browser.cookies.set(name, cookie);
      statuses.push((await browser.send(callback.href)).status);
    }
    expect(statuses).toEqual([200, 401, 401]);
    expect(admin.provider.exchanges).toHaveLength(exchanges + 1);
  });

  test("by the logout and by the beginning, each alone, and a login that has begun still ends", async () => {
    const browser = createProviderBrowser(admin.url);
    const { callback } = await begin(browser);
    for (const path of ["/enter/leave", "/enter/provider"]) {
      const steps = path === "/enter/leave" ? 60 : 59;
      admin.provider.forge({
        instead: {
          path: "/.well-known/openid-configuration",
          answer: (response) => void response.writeHead(404).end(),
        },
      });
      const statuses: number[] = [];
      for (let sent = 0; sent <= steps; sent++) statuses.push((await client.send(path)).status);
      expect([path, statuses.slice(-2)]).toEqual([path, [503, 429]]);
    }
    admin.provider.forge({});
    expect((await browser.send(callback.href)).status).toBe(200);
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
    const both = `${refused}: it announces ${admin.provider.issuer};`;
    expect(sentenceOf(await provider.examine())).toStartWith(both);
    const elsewhere = settingsFor(admin.url, admin.provider.issuer.replace("127.0.0.1", "localhost"));
    expect(sentenceOf(await orThrow(openProvider(elsewhere, context)).examine())).toEndWith(
      `: it announces ${admin.provider.issuer}; a link by command still works`,
    );
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
    expect(await examineNamed("/staff/v2.0")).toMatchObject({ hasLogout: false });
    for (const named of ["/guests/v2.0", "/{tenantid}/v2.0", "/staff/v2.0/", "/staff", ""])
      expect(sentenceOf(await examineNamed(named))).toStartWith(
        `${refused}/staff/v2.0: it announces ${issuer}${named};`,
      );
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
