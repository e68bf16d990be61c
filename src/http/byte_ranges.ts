/**
 * Which bytes of a file a request asks for: `Range`, `If-Range` and `If-None-Match`. Source: RFC 9110,
 * sections 13 and 14.
 *
 * One range is served, from its first byte, open-ended or by a suffix. Several, and what is no range of
 * bytes, are answered with the whole file, as the RFC allows. Spaces around a number are forgiven: Bun does
 * its own reading of a `Range` that was answered with the whole file, and forgives them.
 */

export interface ByteRange {
  readonly first: number;
  /** Included. */
  readonly last: number;
}

/** The range; `all` for the whole file; `none` where no byte of it was asked for. */
export function parseRange(header: string | null, sizeBytes: number): ByteRange | "all" | "none" {
  const match = /^\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header ?? "");
  if (match === null) return "all";
  const [, from = "", to = ""] = match;
  if (from === "" && to === "") return "all";
  const end = sizeBytes - 1;
  if (from === "") {
    const suffix = Math.min(Number(to), sizeBytes);
    return suffix === 0 ? "none" : { first: sizeBytes - suffix, last: end };
  }
  const first = Number(from);
  if (to !== "" && Number(to) < first) return "all";
  if (first > end) return "none";
  return { first, last: to === "" ? end : Math.min(Number(to), end) };
}

/**
 * True where the range counts: there is no `If-Range`, or it names the file's strong tag. A date never does,
 * since the file has none, nor does a weak tag.
 */
export function isRangeWanted(ifRange: string | null, etag: string): boolean {
  return ifRange === null || ifRange.trim() === etag;
}

/** Whether `If-None-Match` names the tag, by the weak comparison of RFC 9110, 13.1.2. */
export function isKnown(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  return ifNoneMatch.split(",").some((entry) => {
    const tag = entry.trim().replace(/^W\//, "");
    return tag === etag || tag === "*";
  });
}
