/** Tokens: the refusals at their issue, and the effects of renewing, revoking and resuming on the integration. */
import { describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import {
  disableTokens,
  findTokens,
  issueToken,
  listTokens,
  renewToken,
  resumeToken,
  revokeToken,
  type Token,
  type TokenRequest,
} from "../../src/operators/mod.ts";
import { dumpText } from "../support/dump.ts";
import { inTransaction, overtake } from "../support/in_transaction.ts";
import { ACTOR, BRAND, NOW, sentenceOf } from "../support/issue.ts";
import { useTestDatabase } from "../support/use.ts";
import { enter, login } from "./login.ts";

const BY = { actor: ACTOR, now: NOW };
const LATER = new Date(NOW.getTime() + 3_600_000);
const server = useTestDatabase();

const tryToIssue = (request: Partial<TokenRequest> & { readonly name: string }) =>
  issueToken(
    server.database,
    { scopes: ["keys:read"], restriction: {}, ...request },
    { ...BY, brand: BRAND },
  );

async function issue(request: Partial<TokenRequest> & { readonly name: string }): Promise<string> {
  const issued = await tryToIssue(request);
  if (isRefusal(issued)) throw new Error(issued.sentence);
  return issued.token;
}

async function renew(name: string, expiresAt?: Date): Promise<string> {
  const renewed = await renewToken(server.database, { name, expiresAt }, { ...BY, brand: BRAND });
  if (isRefusal(renewed)) throw new Error(renewed.sentence);
  return renewed.token;
}

const find = (token: string, now = NOW): Promise<Token | undefined> =>
  findTokens(server.database, [token], { now }).then((found) => found.get(token));

const disableAll = () => inTransaction(server.address, disableTokens);

async function stateOf(name: string): Promise<string | undefined> {
  return (await listTokens(server.database, { now: NOW })).find((token) => token.name === name)?.state;
}

async function newestAudit(): Promise<unknown> {
  const [row] = await listAudit(server.database, { limit: 1 });
  return row && { action: row.action, before: row.before, after: row.after };
}

describe("issueToken()", () => {
  test("refuses wrong names, scopes, expiries and sources, and a name that was used before", async () => {
    const attempt = async (request: Partial<TokenRequest>) =>
      sentenceOf(await tryToIssue({ name: "attempt", ...request }));
    await issue({ name: "used" });
    await revokeToken(server.database, "used", BY);
    expect(await attempt({ name: "used" })).toContain("the name used was used before");
    for (const name of ["", "Shop", "a b", "x".repeat(65)]) {
      expect(await attempt({ name })).toContain("a name must be 1 to 64 lowercase letters");
    }
    expect(await attempt({ scopes: [] })).toContain("at least one scope of keys:read, keys:issue");
    expect(await attempt({ expiresAt: NOW })).toContain("the expiry lies in the past");
    for (const source of ["", "10.0.0.0/8 10.1.0.1", "10.0.0.0/33", "0.0.0.0/0", "host", "fe80::1%eth0"]) {
      expect(await attempt({ sources: ["192.0.2.1", source] })).toContain("must be 1 to 32 addresses");
    }
    for (const sources of [[], Array(33).fill("192.0.2.1")])
      expect(await attempt({ sources })).toContain("its sources must be 1 to 32 addresses and networks");
    expect(await stateOf("attempt")).toBeUndefined();
  });
});

describe("listTokens()", () => {
  test("lists tokens by name with creator, limits, state and last use", async () => {
    const token = await issue({
      name: "listed",
      scopes: ["keys:read", "keys:issue"],
      restriction: { tiers: ["free", "research"], mode: "test" },
      sources: ["10.0.0.0/8", "2001:db8::1"],
      expiresAt: LATER,
    });
    const listed = async (now = NOW) =>
      (await listTokens(server.database, { now })).find(({ name }) => name === "listed");
    const row = {
      name: "listed",
      state: "active",
      scopes: ["keys:read", "keys:issue"],
      restriction: { tiers: ["free", "research"], mode: "test", joins: false },
      sources: ["10.0.0.0/8", "2001:db8::1"],
      createdBy: "command:tester",
      createdAt: NOW,
      renewedAt: NOW,
      expiresAt: LATER,
      lastUsedAt: null,
    } as const;
    expect(await listed()).toEqual(row);
    await find(token);
    await find(token, new Date(NOW.getTime() + 59_000));
    expect(await listed()).toEqual({ ...row, lastUsedAt: NOW });
    await find(token, new Date(NOW.getTime() + 60_000));
    expect((await listed())?.lastUsedAt).toEqual(new Date(NOW.getTime() + 60_000));
    expect((await listed(LATER))?.state).toBe("expired");
    const names = (await listTokens(server.database, { now: NOW })).map(({ name }) => name);
    expect(names).toEqual(names.toSorted());
  });
});

describe("renewToken()", () => {
  test("gives the same integration a new secret, and refuses the old one at once", async () => {
    const old = await issue({ name: "renewed", restriction: { mode: "test" } });
    const before = await find(old);
    const token = await renew("renewed");
    expect(token).not.toBe(old);
    expect(await find(old)).toBeUndefined();
    expect(await find(token)).toEqual(before as Token);
    expect(await newestAudit()).toMatchObject({ action: "token.renew", after: { token: "renewed" } });
  });

  test("changes the expiry only if one is given, and refuses one that has passed", async () => {
    const expiryOf = async (name: string) =>
      (await listTokens(server.database, { now: NOW })).find((token) => token.name === name)?.expiresAt;
    await issue({ name: "short", expiresAt: LATER });
    await renew("short");
    expect(await expiryOf("short")).toEqual(LATER);
    const renewLater = (expiresAt?: Date) =>
      renewToken(server.database, { name: "short", expiresAt }, { ...BY, now: LATER, brand: BRAND });
    const sentence = "it would be expired since 2026-11-20T13:00:00Z; give a later expiry";
    expect(sentenceOf(await renewLater())).toContain(sentence);
    expect(await renewLater()).toMatchObject({ remedy: { name: "extend_token" } });
    const past = "the expiry lies in the past; give a later expiry";
    expect(sentenceOf(await renewLater(LATER))).toContain(past);
    expect(await renewLater(new Date(LATER.getTime() + 1))).toMatchObject({ state: "active" });
    await renew("short", NEVER_EXPIRES);
    expect(await expiryOf("short")).toBeNull();
  });
});

describe("revokeToken() and resumeToken()", () => {
  test("a revoked token is refused from the next request on, and for ever", async () => {
    const token = await issue({ name: "lost" });
    expect(await revokeToken(server.database, "lost", { ...BY, isDryRun: true })).toEqual({
      state: "active",
      isChanged: false,
    });
    expect(await find(token)).toBeDefined();
    expect(await revokeToken(server.database, "lost", BY)).toEqual({ state: "active", isChanged: true });
    expect(await find(token)).toBeUndefined();
    expect(await newestAudit()).toEqual({
      action: "token.revoke",
      before: { token: "lost", state: "active" },
      after: { token: "lost", state: "revoked" },
    });
    const rows = await listAudit(server.database);
    expect(await revokeToken(server.database, "lost", BY)).toEqual({ state: "revoked", isChanged: false });
    expect(sentenceOf(await resumeToken(server.database, "lost", BY))).toContain(
      "it is revoked, which is final",
    );
    expect(await listAudit(server.database)).toEqual(rows);
    for (const change of [revokeToken, resumeToken]) {
      expect(sentenceOf(await change(server.database, "none", BY))).toContain("no token has this name");
    }
  });

  test("resumeToken() and renewToken() refuse a token that is revoked at the same moment, and it stays revoked", async () => {
    const changes: Readonly<Record<string, () => Promise<unknown>>> = {
      "late-resume": () => resumeToken(server.database, "late-resume", BY),
      "late-renewal": () => renewToken(server.database, { name: "late-renewal" }, { ...BY, brand: BRAND }),
    };
    for (const [name, change] of Object.entries(changes)) {
      await issue({ name });
      if (name === "late-resume") await disableAll();
      const outcome = await overtake(
        server,
        (sql) => sql`update tokens set state = 'revoked' where name = ${name}`,
        change,
      );
      expect(outcome).toMatchObject({ code: "CONFLICT" });
      expect(await stateOf(name)).toBe("revoked");
      expect(await newestAudit()).toMatchObject({ action: "token.issue" });
    }
  });

  test("disabled tokens are refused until they are resumed one by one", async () => {
    const token = await issue({ name: "restored" });
    await issue({ name: "revoked-before" });
    await revokeToken(server.database, "revoked-before", BY);
    expect(await disableAll()).toBeGreaterThan(0);
    expect(await disableAll()).toBe(0);
    expect(await find(token)).toBeUndefined();
    expect(await stateOf("revoked-before")).toBe("revoked");
    // A new secret does not resume the token.
    const renewed = await renew("restored");
    expect(await find(renewed)).toBeUndefined();
    expect(await resumeToken(server.database, "restored", BY)).toEqual({
      state: "disabled",
      isChanged: true,
    });
    expect(await find(renewed)).toBeDefined();
    expect(await resumeToken(server.database, "restored", BY)).toEqual({ state: "active", isChanged: false });
    await disableAll();
    expect(await revokeToken(server.database, "restored", BY)).toEqual({
      state: "disabled",
      isChanged: true,
    });
  });
});

test("the database has no token, code or cookie, only hashes", async () => {
  const issued = await issue({ name: "searched" });
  const renewed = await renew("searched");
  const { code } = await login(server.database, "searched", { role: "admin" });
  const { cookieValue } = await enter(server.database, "searched");
  const dump = (await dumpText(server.database)).toLowerCase();
  for (const text of [issued.slice(-48), renewed.slice(-48), code, cookieValue]) {
    expect(dump).not.toContain(text);
    expect(dump).not.toContain(Buffer.from(text).toString("hex"));
    expect(dump).not.toContain(Buffer.from(text, "hex").toString("base64").toLowerCase());
  }
  expect(dump).toContain("searched");
});
