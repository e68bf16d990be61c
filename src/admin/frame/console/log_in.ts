/** The beginning and the end of a session. */
import type { Context, Handler } from "hono";
import { WindowTable } from "../../../limits/mod.ts";
import { endSession, findOperatorOfCode, redeemCode } from "../../../operators/mod.ts";
import { isRefusal, refuse } from "../../../refusal.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { enterPage } from "./enter.tsx";
import { readForm } from "./form.ts";
import type { Page } from "./page.tsx";
import { showDone } from "./route.ts";
import { actorOf, deleteSessionCookie, loginOf, readSession, setSessionCookie } from "./session.ts";
import type { Visit } from "./visit.ts";
import { FIRST_PAGE, wayBackOf } from "./way_back.ts";

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
      return await show(c, enterPage({ to: FIRST_PAGE, refusal: refuse("RATE_LIMIT_EXCEEDED", wait) }));
    }
    const form = await readForm(c.req.raw);
    if (isRefusal(form)) return await show(c, enterPage({ to: FIRST_PAGE, refusal: form }));
    const to = wayBackOf(form.get("to") ?? "");
    const code = form.get("code") ?? "";
    const by = loginOf(c, options);
    const operator = await findOperatorOfCode(database, code, by.now);
    const replaced = await readSession(c, options, { extends: false });
    // A link must not end the session of a colleague at the same browser without a question.
    const isColleague = operator !== undefined && replaced !== undefined && replaced.operator !== operator;
    if (isColleague && form.get("replaces") !== replaced.operator) {
      return await show(c, enterPage({ to, replaces: { operator: replaced.operator, code } }));
    }
    const session = operator && (await redeemCode(database, code, by));
    if (!session) {
      wrongByAddress.record(group, clock.monotonicMs());
      options.noteFailedLogin(group);
      return await show(c, enterPage({ to, refusal: WRONG_CODE }));
    }
    // After a new login the browser has no cookie for its earlier session.
    if (replaced) await endSession(database, replaced.id, { ...by, actor: actorOf(c, replaced) });
    setSessionCookie(c, options, session.cookieValue);
    return c.redirect(to, 303);
  };
}

/** Ends the session. */
export async function logOut({ options, session, actor, now }: Visit, c: Context<AdminEnv>) {
  await endSession(options.database, session.id, { actor, now });
  deleteSessionCookie(c, options);
  return showDone(c, "/enter", "logged-out");
}
