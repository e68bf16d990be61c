import type { Context } from "hono";
import type { Refusal } from "../../../base/refusal.ts";
import type { AdminEnv } from "../options.ts";
import type { Need } from "./may.ts";
import type { Page } from "./page.tsx";
import type { Visit } from "./visit.ts";

/** A page or a form of the console below `/console`, with the right that a role needs for it. */
export interface ConsoleRoute {
  readonly method: "GET" | "POST" | "PUT";
  /** As Hono writes paths: `/keys/:id`. */
  readonly path: string;
  readonly scope: Need;
  /** The most bytes of its form; by default those of every body. */
  readonly formLimitBytes?: number;
  answer(visit: Visit, c: Context<AdminEnv>): Page | Response | Refusal | Promise<Page | Response | Refusal>;
}

/** Defines a page. */
export function page(path: string, scope: Need, answer: ConsoleRoute["answer"]): ConsoleRoute {
  return { method: "GET", path, scope, answer };
}

/** Defines the answer to a form that is not that of an action. */
export function form(path: string, scope: Need, answer: ConsoleRoute["answer"]): ConsoleRoute {
  return { method: "POST", path, scope, answer };
}

/** The field of an address that names the request whose change the page tells. */
export const DONE = "done";

/** The field of an address that names the action whose form is open. */
export const OPEN = "open";

/** The field of an address and of a form that names the page on which the action began. */
export const ORIGIN = "from";

/** Answers a form after its change: the browser goes to the page at `address`, which shows the sentence of `done`. */
export function showDone(c: Context<AdminEnv>, address: string, done = ""): Response {
  return c.redirect(`/console${address}${address.includes("?") ? "&" : "?"}${DONE}=${done}`, 303);
}

/** Returns the address of the login after which the page at `address` opens. Both are below `/console`. */
export function toFreshLogin(address: string): string {
  return `/enter?fresh=1&to=${encodeURIComponent(`/console${address}`)}`;
}

/** Returns the id of an action's form, for links. */
export function formIdOf(action: string): string {
  return `${action}-form`;
}

/** Returns the address of a page at which the form of an action is open; `from` is the page on which the action begins. */
export function toOpenForm(path: string, action: string, from?: string): string {
  const origin = from === undefined ? "" : `&${ORIGIN}=${encodeURIComponent(from)}`;
  return `${path}?${OPEN}=${action}${origin}#${formIdOf(action)}`;
}
