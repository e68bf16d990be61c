/**
 * The beginning and the end of a session. A code is looked up before the limit of failures, so a valid one works behind
 * every address. Wrong codes must still be cheap, so the look-ups of an address with too many failures are gathered.
 */
import type { Context, Handler } from "hono";
import { isRefusal, refuse } from "../../../base/refusal.ts";
import { createLookUpQueue } from "../../../database/mod.ts";
import { endSession, findOperatorsOfCodes, parseCode, redeemCode } from "../../../operators/mod.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { enterPage } from "./enter.tsx";
import { readForm } from "./form.ts";
import type { LoginLimit } from "./login_limit.ts";
import type { Page } from "./page.tsx";
import { showDone } from "./route.ts";
import { deleteSessionCookie, loginOf, readSession, startSession } from "./session_cookie.ts";
import type { Visit } from "./visit.ts";
import { FIRST_PAGE, wayBackOf } from "./way_back.ts";

const WRONG_CODE = refuse(
  "INVALID_TOKEN",
  "This code does not work: it was used already, is older than ten minutes, or has a typing error",
);

/** Creates the handler that redeems a code for a session. */
export function logIn(
  options: AdminOptions,
  limit: LoginLimit,
  show: (c: Context<AdminEnv>, page: Page) => Response | Promise<Response>,
): Handler<AdminEnv> {
  const { clock, database, provider } = options;
  const queue = createLookUpQueue({
    clock,
    find: (codes) => findOperatorsOfCodes(database, codes, { now: clock.now() }),
  });

  return async (c) => {
    const group = c.get("addressGroup");
    const form = await readForm(c.req.raw);
    if (isRefusal(form)) return await show(c, enterPage({ provider, to: FIRST_PAGE, refusal: form }));
    const to = wayBackOf(form.get("to") ?? "");
    const code = form.get("code") ?? "";
    const digits = parseCode(code);
    const operator = digits && (await queue.lookUp(digits, group, { isGathered: limit.isFull(group) }));
    const replaced = operator ? await readSession(c, options, { extends: false }) : undefined;
    // A link must not end the session of a colleague at the same browser without a question.
    if (replaced && replaced.operator !== operator && form.get("replaces") !== replaced.operator) {
      return await show(c, enterPage({ provider, to, replaces: { operator: replaced.operator, code } }));
    }
    const session = operator ? await redeemCode(database, code, loginOf(c, options)) : undefined;
    if (session === undefined) {
      return await show(c, enterPage({ provider, to, refusal: limit.count(group, WRONG_CODE) }));
    }
    await startSession(c, options, { ...session, replaced });
    return c.redirect(to, 303);
  };
}

/** Ends the session. */
export async function logOut({ options, session, actor, now }: Visit, c: Context<AdminEnv>) {
  await endSession(options.database, session.id, { actor, now });
  deleteSessionCookie(c, options);
  return showDone(c, "/enter", "logged-out");
}
