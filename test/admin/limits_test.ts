/** Limits of the API: requests of a token, and wrong tokens from an address. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Database } from "../../src/database/mod.ts";
import { parseTrustedProxies } from "../../src/limits/mod.ts";
import { startAdmin, type TestAdmin } from "../support/admin.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(30_000);

const MINUTE_MS = 61_000;
const REQUESTS = 600;
const WRONG_TOKENS = 60;

let admin: TestAdmin;
let token: string;

beforeEach(async () => {
  const proxies = parseTrustedProxies("127.0.0.1");
  if (!proxies.ok) throw new Error(proxies.error);
  admin = await startAdmin({ admin: { trustedProxies: proxies.proxies } });
  token = await admin.token();
});
afterEach(() => admin.close());

/** Asks who a token is, from an address behind the proxy, and returns the status. */
async function whoami(text: string, address = "203.0.113.1"): Promise<number> {
  const headers = { "x-forwarded-for": address };
  return (await admin.call("GET", "/whoami", { token: text, headers })).status;
}

/** A token in the right form that nobody issued. */
function wrongToken(n = 0): string {
  return `svc_op_${n.toString(16).padStart(48, "0")}`;
}

async function sendWrong(count: number, address?: string): Promise<Set<number>> {
  const statuses = new Set<number>();
  for (let n = 0; n < count; n++) statuses.add(await whoami(wrongToken(n), address));
  return statuses;
}

/** Returns how many statements run while `body` runs. */
async function countStatements(body: () => Promise<unknown>): Promise<number> {
  const before = admin.database.stats().statements;
  await body();
  return admin.database.stats().statements - before;
}

describe("Wrong tokens", () => {
  test("60 in a minute are refused one by one; then every request of the address gets 429 before the look-up", async () => {
    expect(await sendWrong(WRONG_TOKENS)).toEqual(new Set([401]));
    const statements = await countStatements(async () => {
      const headers = { "x-forwarded-for": "203.0.113.1" };
      for (const text of [wrongToken(), "svc_op_short", token]) {
        const answer = await admin.call("GET", "/whoami", { token: text, headers });
        expect({ status: answer.status, code: answer.body.code }).toEqual({
          status: 429,
          code: "RATE_LIMIT_EXCEEDED",
        });
        expect(Number(answer.headers.get("retry-after"))).toBeWithin(1, 62);
        expect(answer.headers.get("x-ratelimit-limit")).toBeNull();
      }
    });
    expect(statements).toBe(0);
  });

  test("are counted also if they have the wrong form, and then no statement runs for them", async () => {
    const statements = await countStatements(async () => {
      for (let n = 0; n < WRONG_TOKENS; n++) expect(await whoami("svc_live_1")).toBe(401);
    });
    expect(statements).toBe(0);
    expect(await whoami(token)).toBe(429);
  });

  test("at once are all refused, and the address gets 429 afterwards", async () => {
    const statuses = await Promise.all(Array.from({ length: 200 }, (_, n) => whoami(wrongToken(n))));
    expect(statuses.filter((status) => status === 200)).toEqual([]);
    expect(await countStatements(() => whoami(token))).toBe(0);
  });

  test("that arrive at once cost at most 100 look-ups, also if the database is slow", async () => {
    const { database, testDatabase: on, clock } = admin;
    const gate = Promise.withResolvers<void>();
    const query: Database["query"] = (...call) => gate.promise.then(() => database.query(...call));
    const slow = await startAdmin({ on, clock, admin: { database: { ...database, query } } });
    const answered: number[] = [];
    const all = Array.from({ length: 150 }, async (_, n) => {
      const { status } = await slow.call("GET", "/whoami", { token: wrongToken(n) });
      answered.push(status);
    });
    await until(() => answered.length === 50);
    gate.resolve();
    await Promise.all(all);
    expect(answered).toEqual([...Array(50).fill(429), ...Array(100).fill(401)]);
    clock.advance(MINUTE_MS);
    expect((await slow.call("GET", "/whoami", { token })).status).toBe(200);
    await slow.close();
  });

  test("of another address do not matter, and an address within the same IPv6 network counts as the same", async () => {
    await sendWrong(WRONG_TOKENS, "2001:db8:0:1::1");
    expect(await whoami(token, "2001:db8:0:1:ffff::2")).toBe(429);
    expect(await whoami(token, "203.0.113.2")).toBe(200);
  });

  test("are forgotten after a minute, also if the address went on asking", async () => {
    await sendWrong(WRONG_TOKENS);
    for (let second = 0; second < 60; second += 10) {
      expect(await whoami(token)).toBe(429);
      admin.clock.advance(10_000);
    }
    admin.clock.advance(1_000);
    expect(await whoami(token)).toBe(200);
  });

  test("of an address that a client only claims count against its own address", async () => {
    const direct = await startAdmin({ on: admin.testDatabase });
    const statuses = new Set<number>();
    for (let n = 0; n <= WRONG_TOKENS; n++) {
      const headers = { "x-forwarded-for": `203.0.113.${n}` };
      statuses.add((await direct.call("GET", "/whoami", { token: wrongToken(n), headers })).status);
    }
    expect(statuses).toEqual(new Set([401, 429]));
    await direct.close();
  });
});

describe("A token", () => {
  test("gets 600 requests a minute, and waiting Retry-After is enough", async () => {
    for (let n = 1; n <= REQUESTS; n++) {
      const { status, headers } = await admin.call("GET", "/whoami", { token });
      expect({ status, remaining: headers.get("x-ratelimit-remaining") }).toEqual({
        status: 200,
        remaining: String(REQUESTS - n),
      });
    }
    const refused = await admin.call("GET", "/nothing", { token });
    expect({ status: refused.status, remaining: refused.headers.get("x-ratelimit-remaining") }).toEqual({
      status: 429,
      remaining: "0",
    });
    admin.clock.advance(Number(refused.headers.get("retry-after")) * 1_000);
    expect(await whoami(token)).toBe(200);
  });

  test("counts requests that are refused for another reason, and does not share them with other tokens", async () => {
    const poor = await admin.token({ sources: ["192.0.2.0/24"] });
    for (let n = 0; n < REQUESTS; n++) expect(await whoami(poor)).toBe(403);
    expect(await whoami(poor)).toBe(429);
    expect(await whoami(token)).toBe(200);
  });

  test("does not lose its requests to somebody who sends it from an address that it is not accepted from", async () => {
    const shop = await admin.token({ sources: ["203.0.113.0/24"] });
    for (let n = 0; n < REQUESTS; n++) expect(await whoami(shop, "198.51.100.1")).toBe(403);
    expect(await whoami(shop, "198.51.100.1")).toBe(429);
    expect(await whoami(shop, "203.0.113.7")).toBe(200);
  });

  test("that is over its limit does not count as a wrong token", async () => {
    for (let n = 0; n < REQUESTS + WRONG_TOKENS; n++) await whoami(token);
    expect(await whoami(token)).toBe(429);
    expect(await whoami(await admin.token())).toBe(200);
  });

  test("can use its requests up while other addresses send wrong tokens", async () => {
    await sendWrong(WRONG_TOKENS + 1, "203.0.113.9");
    expect(await whoami(token, "203.0.113.1")).toBe(200);
    admin.clock.advance(MINUTE_MS);
    expect(await whoami(token, "203.0.113.9")).toBe(200);
  });
});
