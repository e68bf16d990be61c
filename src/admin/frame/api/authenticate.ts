/**
 * Looks the token of each request up, so that a revoked token is refused from the next request on, and counts the
 * request for its token.
 *
 * The look-up comes before the limit, as for clients: wrong tokens of one program must not block the valid token of
 * another one behind the same address. Wrong tokens must still be cheap, so the look-ups of an address whose window is
 * full are gathered (see `database/look_up_queue.ts`).
 */
import { createMiddleware } from "hono/factory";
import { isInNetworks, parseTrustedProxies, toResetAt, WindowTable } from "../../../base/rate_limits/mod.ts";
import { refuse, refuseTooMany } from "../../../base/refusal.ts";
import { createLookUpQueue } from "../../../database/mod.ts";
import { findTokens, rightOfToken, type Token, tokenPattern } from "../../../operators/mod.ts";
import { answerRefusal } from "../answer.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { createTurns, TURNS } from "../turns.ts";

/** Requests a minute of one token. */
const TOKEN_LIMIT = 600;
/** Wrong tokens a minute from one address. */
const WRONG_TOKEN_LIMIT = 60;
const WINDOWS = 10_000;

const INVALID_TOKEN = refuse(
  "INVALID_TOKEN",
  "A valid token is required: send it as `Authorization: Bearer …`",
);
export const TOO_MANY_AT_ONCE = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many requests of this token at the same time: send fewer at once",
  { retryAfterSeconds: 1 },
);
const WRONG_ADDRESS = refuse("NOT_ALLOWED", "The token is not accepted from this address");

/** Creates the middleware that finds the token, refuses unknown tokens, and limits the rate. */
export function authenticate({ brand, clock, database }: AdminOptions) {
  const pattern = tokenPattern(brand);
  const byToken = new WindowTable(TOKEN_LIMIT, WINDOWS);
  const wrongByAddress = new WindowTable(WRONG_TOKEN_LIMIT, WINDOWS);
  const takeTurn = createTurns(TURNS);
  const queue = createLookUpQueue<Token>({
    clock,
    find: (texts) => findTokens(database, texts, { now: clock.now() }),
  });

  return createMiddleware<AdminEnv>(async (c, next) => {
    const address = c.get("address");
    const group = c.get("addressGroup");
    const [, text = ""] = /^Bearer +(\S+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
    const isFull = () => !wrongByAddress.peek(group, clock.monotonicMs()).allowed;
    const token = pattern.test(text) ? await queue.lookUp(text, group, { isGathered: isFull() }) : undefined;
    if (token === undefined || token === null) {
      // Only an unknown token counts: any website can send requests without one.
      const verdict = token === null ? wrongByAddress.take(group, clock.monotonicMs()) : undefined;
      if (verdict?.allowed === false) return answerRefusal(c, refuseTooMany(verdict));
      c.header("WWW-Authenticate", "Bearer");
      return answerRefusal(c, INVALID_TOKEN);
    }
    const actor = { kind: "token", name: token.name, request: c.get("requestId"), address } as const;
    c.set("actor", actor);
    c.set("token", token);
    c.set("rightTo", (scope) => rightOfToken(text, scope));
    const isAtHome = isFrom(token, address);
    // Requests from other addresses have their own window: a thief of the token cannot use up the program's requests.
    const verdict = byToken.take(isAtHome ? token.uuid : `${token.uuid} elsewhere`, clock.monotonicMs());
    c.header("X-RateLimit-Limit", String(verdict.limit));
    c.header("X-RateLimit-Remaining", String(verdict.remaining));
    c.header("X-RateLimit-Reset", String(toResetAt(verdict, clock.nowMs())));
    if (!verdict.allowed) return answerRefusal(c, refuseTooMany(verdict));
    if (!isAtHome) return answerRefusal(c, WRONG_ADDRESS);
    const hadTurn = await takeTurn(token.uuid, (pause) => {
      c.set("pauseTurn", async (wait) => {
        const beganMs = clock.monotonicMs();
        const isBack = await pause(wait);
        c.set("waitedMs", (c.get("waitedMs") ?? 0) + clock.monotonicMs() - beganMs);
        return isBack;
      });
      return next();
    });
    return hadTurn ? undefined : answerRefusal(c, TOO_MANY_AT_ONCE);
  });
}

/** Tells whether a token is accepted from an address. */
function isFrom({ sources }: Token, address: string): boolean {
  if (sources === undefined) return true;
  const networks = parseTrustedProxies(sources.join(","));
  return networks.ok && isInNetworks(address, networks.proxies);
}
