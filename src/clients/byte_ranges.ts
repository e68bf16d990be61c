/**
 * Reads the bytes of a file that a request asks for: `Range` and `If-Range`. Source: RFC 9110, sections 13 and 14.
 *
 * One range is served: first and last byte, first byte only, or a suffix. Several ranges, and text that is not
 * a range of bytes, get the whole file, as the RFC allows. Spaces around a number are accepted: Bun itself reads
 * the `Range` of a request that gets the whole file, and accepts them.
 */

/**
 * Returns the first byte of the range and the last one, included; `all` for the whole file; `none` if the file has no
 * byte of the range.
 */
export function parseRange(header: string | null, sizeBytes: number) {
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
 * Tells whether the range counts: there is no `If-Range`, or it is the file's strong tag. A date never counts,
 * because the file has no date; a weak tag never counts either.
 */
export function isRangeWanted(ifRange: string | null, etag: string): boolean {
  return ifRange === null || ifRange.trim() === etag;
}
