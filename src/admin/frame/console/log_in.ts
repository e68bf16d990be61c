/** The beginning and the end of a session. */
import type { Context, Handler } from "hono";
import { WindowTable } from "../../../limits/mod.ts";
import { endSession, redeemCode } from "../../../operators/mod.ts";
import { isRefusal, refuse } from "../../../refusal.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { enterPage } from "./enter.tsx";
import { readForm } from "./form.ts";
import type { Page } from "./page.tsx";
import { showDone } from "./route.ts";
import { actorOf, deleteSessionCookie, readSession, setSessionCookie } from "./session.ts";
import type { Visit } from "./visit.ts";

/** Wrong codes a minute from one address. */
const WRONG_CODE_LIMIT = 60;
const WINDOWS = 10_000;

const WRONG_CODE = refuse(
  "INVALID_TOKEN",
  "This code does not work: it was used already, is older than ten minutes, or has a typing error",
);

/** Creates the handler that redeems a code for a session. */
export function logIn(
  options: AdminOptions,
  show: (c: Context<AdminEnv>, page: Page) => Response | Promise<Response>,
): Handler<AdminEnv> {
  const { clock, database } = options;
  const wrongByAddress = new WindowTable(WRONG_CODE_LIMIT, WINDOWS);

  return async (c) => {
    const group = c.get("addressGroup");
    const { allowed, retryAfterSeconds } = wrongByAddress.peek(group, clock.monotonicMs());
    if (!allowed) {
      options.noteFailedLogin(group);
      c.header("Retry-After", String(retryAfterSeconds));
      const wait = `Too many wrong codes came from your address: wait ${retryAfterSeconds} seconds`;
      return await show(c, enterPage({ refusal: refuse("RATE_LIMIT_EXCEEDED", wait) }));
    }
    const form = await readForm(c.req.raw);
    if (isRefusal(form)) return await show(c, enterPage({ refusal: form }));
    const code = form.get("code") ?? "";
    const replaced = await readSession(c, options, { extends: false });
    // A link must not end the session of a colleague at the same browser without a question.
    if (replaced !== undefined && form.get("replaces") !== replaced.operator) {
      return await show(c, enterPage({ replaces: { operator: replaced.operator, code } }));
    }
    const by = { now: clock.now(), request: c.get("requestId"), address: c.get("address") };
    const session = await redeemCode(database, code, by);
    if (session === undefined) {
      wrongByAddress.record(group, clock.monotonicMs());
      options.noteFailedLogin(group);
      return await show(c, enterPage({ refusal: WRONG_CODE }));
    }
    // After a new login the browser has no cookie for its earlier session.
    if (replaced) await endSession(database, replaced.id, { ...by, actor: actorOf(c, replaced) });
    setSessionCookie(c, options, session.cookieValue);
    return c.redirect("/console/", 303);
  };
}

/** Ends the session. */
export async function logOut({ options, session, actor, now }: Visit, c: Context<AdminEnv>) {
  await endSession(options.database, session.id, { actor, now });
  deleteSessionCookie(c, options);
  return showDone(c, "/enter", "logged-out");
}
