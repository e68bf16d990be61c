/**
 * The canary: a box with a known text that a database keeps from its first start on. If it opens at a
 * later start, the root secret is the one that everything else in the database was sealed with; if it
 * does not, the service must not start, or it would fail at the first box it needs.
 */
import type { Secrets } from "./sealed_box.ts";

const PURPOSE = "canary";
const CANARY_TEXT = "the secret is the right one";

/** Makes the box to store at the first start. */
export function sealCanary(secrets: Secrets): string {
  return secrets.seal(PURPOSE, CANARY_TEXT);
}

/** Tells whether the stored box was sealed with the same root secret. */
export function opensCanary(secrets: Secrets, sealed: string): boolean {
  return secrets.open(PURPOSE, sealed) === CANARY_TEXT;
}
