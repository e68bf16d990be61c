/** Limits of the API: requests of a token, and wrong tokens from an address. */
import { beforeEach, describe, expect, test } from "bun:test";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import type { Database } from "../../src/database/mod.ts";
import { startAdmin } from "../support/admin.ts";
import type { JsonResponse } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";

const MINUTE_MS = 61_000;
const REQUESTS = 600;
const WRONG_TOKENS = 60;

const admin = useForEach(() => {
  const proxies = parseTrustedProxies("127.0.0.1");
  if (!proxies.ok) throw new Error(proxies.error);
  return startAdmin({ admin: { trustedProxies: proxies.proxies } });
});
let token: string;

beforeEach(async () => {
  token = await admin.token();
});

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
  test("60 in a minute are refused one by one; then unknown tokens of the address get 429, and a valid token works", async () => {
    expect(await sendWrong(WRONG_TOKENS)).toEqual(new Set([401]));
    const headers = { "x-forwarded-for": "203.0.113.1" };
    const refused = await admin.call("GET", "/whoami", { token: wrongToken(), headers });
    expect({ status: refused.status, code: refused.body.code }).toEqual({
      status: 429,
      code: "RATE_LIMIT_EXCEEDED",
    });
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(1, 62);
    expect(refused.headers.get("x-ratelimit-limit")).toBeNull();
    expect(await whoami("svc_op_short")).toBe(401);
    expect(await whoami(token)).toBe(200);
  });

  test("in another form are not counted, and no statement runs for them", async () => {
    const statements = await countStatements(async () => {
      for (let n = 0; n < 2 * WRONG_TOKENS; n++) expect(await whoami("svc_live_1")).toBe(401);
    });
    expect(statements).toBe(0);
    expect(await whoami(wrongToken())).toBe(401);
  });

  test("at once are counted too, and a full address then costs at most ten statements a second", async () => {
    const sendAll = () => Promise.all(Array.from({ length: 200 }, (_, n) => whoami(wrongToken(n))));
    const first = await sendAll();
    expect(first.filter((status) => status === 401).length).toBe(WRONG_TOKENS);
    const beganMs = performance.now();
    const statements = await countStatements(async () => {
      expect(new Set(await sendAll())).toEqual(new Set([429]));
      expect(await sendWrong(10)).toEqual(new Set([429]));
      expect(await whoami(token)).toBe(200);
    });
    expect(statements).toBeLessThanOrEqual(2 + (performance.now() - beganMs) / 100);
  });

  test("of a program that keeps an old token do not lock out a valid one behind the same address", async () => {
    const [stale, valid] = [new Set<number>(), new Set<number>()];
    for (let n = 0; n < 300; n++) {
      stale.add(await whoami(wrongToken()));
      if (n % 10 === 0) valid.add(await whoami(token));
      admin.clock.advance(400);
    }
    expect({ stale, valid }).toEqual({ stale: new Set([401, 429]), valid: new Set([200]) });
  });

  test("of another address do not matter, and an address within the same IPv6 network counts as the same", async () => {
    await sendWrong(WRONG_TOKENS, "2001:db8:0:1::1");
    expect(await whoami(wrongToken(), "2001:db8:0:1:ffff::2")).toBe(429);
    expect(await whoami(wrongToken(), "203.0.113.2")).toBe(401);
  });

  test("are forgotten after a minute, also if the address went on asking", async () => {
    await sendWrong(WRONG_TOKENS);
    for (let second = 0; second < 60; second += 10) {
      expect(await whoami(wrongToken())).toBe(429);
      admin.clock.advance(10_000);
    }
    admin.clock.advance(1_000);
    expect(await whoami(wrongToken())).toBe(401);
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

  test("runs four requests at once; 32 more wait, others get 429, and another token does not wait", async () => {
    const { database, testDatabase: on, clock } = admin;
    const gate = Promise.withResolvers<void>();
    let held = 0;
    // Look-ups of tokens are no reads: they write the last use.
    const query: Database["query"] = (...call) => {
      if (call[1]?.isRead) held++;
      return (call[1]?.isRead ? gate.promise : Promise.resolve()).then(() => database.query(...call));
    };
    const slow = await startAdmin({ on, clock, admin: { database: { ...database, query } } });
    const answers: JsonResponse[] = [];
    const list = async (text: string) => answers.push(await slow.call("GET", "/models", { token: text }));
    const all = Array.from({ length: 60 }, () => list(token));
    await until(() => answers.length === 24);
    for (const { status, body, headers } of answers) {
      expect([status, body.code, headers.get("retry-after")]).toEqual([429, "RATE_LIMIT_EXCEEDED", "1"]);
    }
    expect(held).toBe(4);
    all.push(list(await admin.token()));
    await until(() => held === 5);
    gate.resolve();
    await Promise.all(all);
    expect(answers.slice(24).map(({ status }) => status)).toEqual(Array(37).fill(200));
    await slow.close();
  });

  test("can use its requests up while other addresses send wrong tokens", async () => {
    await sendWrong(WRONG_TOKENS + 1, "203.0.113.9");
    expect(await whoami(token, "203.0.113.1")).toBe(200);
    admin.clock.advance(MINUTE_MS);
    expect(await whoami(token, "203.0.113.9")).toBe(200);
  });
});
