/**
 * Checks the token of each request with one statement, so that a revoked token is refused from the next request on, and
 * counts the request.
 */
import { createMiddleware } from "hono/factory";
import { isInNetworks, parseTrustedProxies, toResetAt, type Verdict, WindowTable } from "../../limits/mod.ts";
import { findToken, type Scope, type Token, tokenPattern } from "../../operators/mod.ts";
import { refuse } from "../../refusal.ts";
import { answerRefusal } from "../answer.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";

/** Requests a minute of one token. */
const TOKEN_LIMIT = 600;
/** Wrong tokens a minute from one address. */
const WRONG_TOKEN_LIMIT = 60;
const WINDOWS = 10_000;
/** Look-ups of one address at the same time. Wrong tokens that arrive at once are counted only after their look-ups. */
const LOOK_UPS_AT_ONCE = 100;

const INVALID_TOKEN = refuse(
  "INVALID_TOKEN",
  "A valid token is required: send it as `Authorization: Bearer …`",
);
const TOO_MANY_AT_ONCE = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many requests at the same time: send fewer at once",
  {
    retryAfterSeconds: 1,
  },
);
const WRONG_ADDRESS = refuse("NOT_ALLOWED", "The token is not accepted from this address");

/** Creates the middleware that finds the token, refuses unknown tokens, and limits the rate. */
export function authenticate({ brand, clock, database }: AdminOptions) {
  const pattern = tokenPattern(brand);
  const byToken = new WindowTable(TOKEN_LIMIT, WINDOWS);
  const wrongByAddress = new WindowTable(WRONG_TOKEN_LIMIT, WINDOWS);
  const lookUps = new Map<string, number>();

  async function lookUp(text: string, group: string): Promise<Token | undefined> {
    lookUps.set(group, (lookUps.get(group) ?? 0) + 1);
    try {
      return await findToken(database, text, { now: clock.now() });
    } finally {
      const left = (lookUps.get(group) ?? 1) - 1;
      if (left === 0) lookUps.delete(group);
      else lookUps.set(group, left);
    }
  }

  return createMiddleware<AdminEnv>(async (c, next) => {
    const address = c.get("address");
    const group = c.get("addressGroup");
    const looked = wrongByAddress.peek(group, clock.monotonicMs());
    if (!looked.allowed) return answerRefusal(c, tooMany(looked));
    const [, text = ""] = /^Bearer +(\S+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
    if ((lookUps.get(group) ?? 0) >= LOOK_UPS_AT_ONCE) return answerRefusal(c, TOO_MANY_AT_ONCE);
    const token = pattern.test(text) ? await lookUp(text, group) : undefined;
    if (token === undefined) {
      wrongByAddress.record(group, clock.monotonicMs());
      c.header("WWW-Authenticate", "Bearer");
      return answerRefusal(c, INVALID_TOKEN);
    }
    const actor = { kind: "token", name: token.name, request: c.get("requestId"), address } as const;
    c.set("actor", actor);
    c.set("token", token);
    const isAtHome = isFrom(token, address);
    // Requests from other addresses have their own window: a thief of the token cannot use up the program's requests.
    const verdict = byToken.take(isAtHome ? token.uuid : `${token.uuid} elsewhere`, clock.monotonicMs());
    c.header("X-RateLimit-Limit", String(verdict.limit));
    c.header("X-RateLimit-Remaining", String(verdict.remaining));
    c.header("X-RateLimit-Reset", String(toResetAt(verdict, clock.nowMs())));
    if (!verdict.allowed) return answerRefusal(c, tooMany(verdict));
    if (!isAtHome) return answerRefusal(c, WRONG_ADDRESS);
    return await next();
  });
}

/** Creates the middleware that refuses a token without the scope; `any` accepts every token. */
export function requireScope(scope: Scope | "any") {
  const refusal = refuse("SCOPE_REQUIRED", `The token needs the scope ${scope}`);
  return createMiddleware<AdminEnv>(async (c, next) => {
    if (scope !== "any" && !c.get("token").scopes.includes(scope)) return answerRefusal(c, refusal);
    return await next();
  });
}

/** Tells whether a token is accepted from an address. */
function isFrom({ sources }: Token, address: string): boolean {
  if (sources === undefined) return true;
  const networks = parseTrustedProxies(sources.join(","));
  return networks.ok && isInNetworks(address, networks.proxies);
}

function tooMany({ retryAfterSeconds }: Verdict) {
  return refuse("RATE_LIMIT_EXCEEDED", "Too many requests: wait as Retry-After says", { retryAfterSeconds });
}
