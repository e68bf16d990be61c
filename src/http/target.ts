/**
 * What a request asks for, read from its address without parsing all of it.
 *
 * The address is absolute, except where the `Host` is missing or nonsense (HTTP/1.0 probes send none):
 * then Bun gives the bare target, and Hono's own reading would take its first part for the host.
 */

/** The path with its query, as the client sent it: `/v1/models/list?type=SvcLDA`. */
export function targetOf(url: string): string {
  if (url.startsWith("/")) return url;
  const begin = url.indexOf("/", url.indexOf("//") + 2);
  return begin === -1 ? "/" : url.slice(begin);
}

/** The path alone. It is not decoded: each path of the contract has one spelling. */
export function pathOf({ url }: Request): string {
  const target = targetOf(url);
  const end = target.indexOf("?");
  return end === -1 ? target : target.slice(0, end);
}

/** The query's parameters; bytes that are not UTF-8 become U+FFFD. */
export function readQuery({ url }: Request): URLSearchParams {
  const begin = url.indexOf("?");
  return new URLSearchParams(begin === -1 ? "" : url.slice(begin + 1));
}
