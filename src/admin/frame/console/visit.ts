import type { Context } from "hono";
import type { Actor } from "../../../audit/mod.ts";
import type { Session } from "../../../operators/mod.ts";
import { readQuery } from "../../../wire/mod.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { mayUse, type Need } from "./may.ts";
import { consoleOriginOf } from "./origin.ts";

/** A request for a page: who asks, and with which fields. */
export interface Visit {
  readonly options: AdminOptions;
  /** The origin under which the browser reaches the console, such as `http://127.0.0.1:8081`. */
  readonly origin: string;
  readonly session: Session;
  /** The operator as the audit log names it, with the request and its address. */
  readonly actor: Actor;
  readonly now: Date;
  /** The parts of the path that are not fixed, as they were sent. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The fields of a form that was sent; otherwise empty. */
  readonly form: URLSearchParams;
  /** Tells whether the role of the operator gives a right. */
  may(need: Need): boolean;
}

/** Collects the facts about a request that a page needs. */
export function createVisit(c: Context<AdminEnv>, options: AdminOptions, form: URLSearchParams): Visit {
  const session = c.get("session");
  return {
    options,
    origin: consoleOriginOf(c, options).origin,
    session,
    actor: c.get("actor"),
    now: options.clock.now(),
    params: c.req.param() as Readonly<Record<string, string>>,
    query: readQuery(c.req.raw),
    form,
    may: (need) => mayUse(session.role, need),
  };
}
