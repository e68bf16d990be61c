import type { Context } from "hono";
import { ROLES, rightOfSession } from "../../../operators/mod.ts";
import { readQuery } from "../../../wire/mod.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { mayUse, type Need } from "./may.ts";
import { consoleOriginOf } from "./origin.ts";

/** A request for a page: who asks, and with which fields. */
export type Visit = Readonly<ReturnType<typeof createVisit>>;

/** Collects the facts about a request that a page needs. */
export function createVisit(
  c: Context<AdminEnv>,
  options: AdminOptions,
  { form, need }: { readonly form: URLSearchParams; readonly need: Need },
) {
  const session = c.get("session");
  return {
    options,
    /** The origin under which the browser reaches the console, such as `http://127.0.0.1:8081`. */
    origin: consoleOriginOf(c, options).origin,
    session,
    /** The operator as the audit log names it, with the request and its address. */
    actor: c.get("actor"),
    now: options.clock.now(),
    /** The parts of the path that are not fixed, as they were sent. */
    params: c.req.param() as Readonly<Record<string, string>>,
    query: readQuery(c.req.raw),
    /** The fields of a form that was sent; otherwise empty. */
    form,
    /** The right of the operator to this page. A request that takes long checks it again at its end. */
    right: rightOfSession(
      session.id,
      ROLES.filter((role) => mayUse(role, need)),
    ),
    /** As it was sent, for an action that takes long: its signal tells that the browser has left. */
    request: c.req.raw,
    /** Tells whether the role of the operator gives a right. */
    may: (need: Need) => mayUse(session.role, need),
  };
}
