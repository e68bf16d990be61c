/**
 * Tags of answers, by which a client can tell that its copy is still valid. Source: RFC 9110, sections 8.8.3 and 13.
 */
import { hash } from "node:crypto";
import { type Refusal, refuse } from "../base/refusal.ts";

const OTHER_TAG = refuse(
  "PRECONDITION_FAILED",
  "If-Match names another tag than these bytes have: begin again without it",
);

/** Returns the strong tag of a text. */
export function tagOf(text: string): string {
  return `"${hash("sha256", text, "base64url")}"`;
}

/**
 * Checks the conditions of a request against the tag of the bytes that it asks for. Returns `known` if the client has these
 * bytes, otherwise `wanted`; refuses if the client expects other ones. `If-Match` comes first, by the strong comparison, and then `If-None-Match`, by the weak one; a range comes after
 * both. Source: RFC 9110, 13.2.2. Conditions with a date are ignored, because nothing that has a tag has a date.
 */
export function checkTag(headers: Headers, etag: string): "wanted" | "known" | Refusal {
  const ifMatch = headers.get("if-match");
  if (ifMatch !== null && !tagsIn(ifMatch).some((tag) => tag === etag || tag === "*")) return OTHER_TAG;
  const known = tagsIn(headers.get("if-none-match") ?? "").map((tag) => tag.replace(/^W\//, ""));
  return known.some((tag) => tag === etag || tag === "*") ? "known" : "wanted";
}

function tagsIn(list: string): string[] {
  return list.split(",").map((tag) => tag.trim());
}
