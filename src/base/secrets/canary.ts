/**
 * The canary: a sealed box with a known text, stored in the database at the first start. If a later start can
 * open it, the root secret is the one that sealed everything else in the database. If not, the service must
 * not start: it would fail at the first box that it needs.
 */
import type { Secrets } from "./sealed_box.ts";

const PURPOSE = "canary";
const CANARY_TEXT = "the secret is the right one";

/** Seals the box to store at the first start. */
export function sealCanary(secrets: Secrets): string {
  return secrets.seal(PURPOSE, CANARY_TEXT);
}

/** Tells whether the stored box was sealed with the same root secret. */
export function opensCanary(secrets: Secrets, sealed: string): boolean {
  return secrets.open(PURPOSE, sealed) === CANARY_TEXT;
}
