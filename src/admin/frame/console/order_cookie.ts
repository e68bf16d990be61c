/**
 * The order that an operator chose last for a list, in a cookie for the path of this list; the browser also sends it to the
 * pages below, which do not read it. It counts when the list is opened without conditions, as from the menu or after a
 * change that began in the list; every link of the page names the order.
 */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import * as v from "valibot";
import { DAY_MS } from "../../../base/calendar.ts";
import type { AdminEnv } from "../options.ts";
import { DONE } from "./route.ts";
import { sessionCookieOf } from "./session_cookie.ts";
import type { Visit } from "./visit.ts";

/** Browsers keep no cookie longer. */
const KEPT_SECONDS = (400 * DAY_MS) / 1_000;

interface OrderedList {
  /** Below `/console`. */
  readonly path: string;
  readonly entries: v.ObjectEntries;
}

/** Keeps the order that the address names; without conditions, returns the visit with the order that was kept. */
export function withChosenOrder({ path, entries }: OrderedList, visit: Visit, c: Context<AdminEnv>): Visit {
  const { sort } = entries;
  if (sort === undefined) return visit;
  const isOrder = (text: string | undefined) => text !== undefined && v.safeParse(sort, text).success;
  const session = sessionCookieOf(c, visit.options);
  const name = `${session.name.replace("__Host-", "")}_order`;
  const attributes = { ...session.attributes, path: `/console${path}` };
  const asked = visit.query.get("sort") ?? undefined;
  if (asked === "") deleteCookie(c, name, attributes);
  else if (asked !== undefined && isOrder(asked))
    setCookie(c, name, asked, { ...attributes, maxAge: KEPT_SECONDS });
  const isBare = [...visit.query.keys()].every((field) => field === DONE);
  const kept = isBare ? getCookie(c, name) : undefined;
  return kept !== undefined && isOrder(kept)
    ? { ...visit, query: new URLSearchParams([...visit.query, ["sort", kept]]) }
    : visit;
}
