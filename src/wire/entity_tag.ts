/**
 * Tags of answers, by which a client can tell that its copy is still valid. Source: RFC 9110, sections 8.8.3 and 13.
 */
import { hash } from "node:crypto";

/** Returns the strong tag of a text. */
export function tagOf(text: string): string {
  return `"${hash("sha256", text, "base64url")}"`;
}

/** Tells whether `If-None-Match` names the tag, by the weak comparison of RFC 9110, 13.1.2. */
export function isKnown(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  return ifNoneMatch.split(",").some((entry) => {
    const tag = entry.trim().replace(/^W\//, "");
    return tag === etag || tag === "*";
  });
}
