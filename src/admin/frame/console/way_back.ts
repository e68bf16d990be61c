/** The page to which a login leads: the one that asked for it. */
import type { Context } from "hono";
import { redactKeys } from "../../../base/secrets/mod.ts";
import { targetOf } from "../../../wire/mod.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { consoleOriginOf } from "./origin.ts";

export const FIRST_PAGE = "/console/";
const MOST_OF_ADDRESS = 2_000;
/** A page of the console, but none of the login or the logout, and no asset. Names of models have a plus: `%2B`. */
const PAGE = /^\/console\/(?!(?:enter|callback|logout|assets)(?:\/|$))(?:[\w./+-]|%2B)*$/;
const ANY_ORIGIN = "http://console.invalid";

/**
 * Returns the address, which anybody may have written, if it is that of a page of the console, or of a part of it.
 * For any other text it returns the address of the first page. A text that a browser would read in another way than it
 * is written, such as one with `..` or a backslash, is no address, nor is one with a key.
 */
export function wayBackOf(text: string): string {
  if (text.length > MOST_OF_ADDRESS || redactKeys(text) !== text) return FIRST_PAGE;
  const { pathname = "", search = "", hash = "" } = URL.parse(text, ANY_ORIGIN) ?? {};
  return pathname + search + hash === text && PAGE.test(pathname) ? text : FIRST_PAGE;
}

/** Returns the address of the page that a request asks for, or of the page whose form it sends. */
export function askedPageOf(c: Context<AdminEnv>, options: AdminOptions): string {
  if (c.req.method === "GET") return wayBackOf(targetOf(c.req.url));
  const from = URL.parse(c.req.header("referer") ?? "");
  const isOwn = from?.origin === consoleOriginOf(c, options).origin;
  return isOwn ? wayBackOf(from.pathname + from.search) : FIRST_PAGE;
}
