/**
 * Reads the path and the query of a request's address without parsing the whole address.
 *
 * The address is absolute, except if the `Host` is missing or invalid (HTTP/1.0 probes send none). Then Bun gives only
 * the path with the query, and Hono's own parser would take the first part of the path for the host.
 */

/** Returns the path with its query, as the client sent it: `/v1/models/list?type=SvcLDA`. */
export function targetOf(url: string): string {
  if (url.startsWith("/")) return url;
  const begin = url.indexOf("/", url.indexOf("//") + 2);
  return begin === -1 ? "/" : url.slice(begin);
}

/** Returns the path without the query. It is not decoded: each path of the contract has one spelling. */
export function pathOf({ url }: Request): string {
  const target = targetOf(url);
  const end = target.indexOf("?");
  return end === -1 ? target : target.slice(0, end);
}

/** What is wrong with a parameter that a query has twice: one of its values would be ignored. */
export const SENT_TWICE = "may be sent only once";

/** Returns the parameters of the query; bytes that are not UTF-8 become U+FFFD. */
export function readQuery({ url }: Request): URLSearchParams {
  const begin = url.indexOf("?");
  return new URLSearchParams(begin === -1 ? "" : url.slice(begin + 1));
}
