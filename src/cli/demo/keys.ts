/**
 * The keys that people can try in a demo. They are derived from the root secret, so that every start can show them. As
 * of every key, only their hashes are stored.
 */

import type { Secrets } from "../../base/secrets/mod.ts";
import type { Config } from "../../installation/config/mod.ts";
import { findKey, generateApiKey, type KeySummary, type NewApiKey } from "../../licensing/keys/mod.ts";
import type { Brand } from "../../licensing/mod.ts";
import { TIERS } from "../../licensing/mod.ts";
import type { OpenInstallation } from "../../service/mod.ts";
import text from "./try.txt" with { type: "text" };

export interface DemoKey extends NewApiKey {
  /** The tier of a key that works, otherwise the reason why the key is refused. */
  readonly label: string;
  readonly email: string;
}

const LABELS = [...TIERS, "expired", "suspended", "revoked", "quota used up"];

/** A place in the text for a value, such as `{address}`. */
const PLACE = /\{([a-z]+)\}/g;

export function deriveKeys(brand: Brand, secrets: Secrets): readonly DemoKey[] {
  return LABELS.map((label) => {
    const bytes = Buffer.from(secrets.signer("demo-key").sign([label]), "base64url");
    // `.example` is reserved (RFC 2606), so no person has such an e-mail.
    const email = `${label.replaceAll(" ", "-")}@demo.example`;
    return { label, email, ...generateApiKey(brand, "test", { bytes }) };
  });
}

/**
 * Finds the test keys of a demo that was added before, without keys that were changed since. Finds none if the demo was
 * removed, if an earlier version added it, or if the root secret or the brand is another one.
 */
export async function findDemoKeys(
  { database, secrets }: Pick<OpenInstallation, "database" | "secrets">,
  { brand, now }: { readonly brand: Brand; readonly now: Date },
): Promise<readonly DemoKey[]> {
  const keys = deriveKeys(brand, secrets);
  const found = await Promise.all(keys.map(({ hash }) => findKey(database, { hash }, { now })));
  return keys.filter(({ label, email }, index) => {
    const key = found[index];
    // An erased account has another e-mail: its revoked keys belong to no demo any more.
    return key?.email === email && toLabel(key) === label;
  });
}

function toLabel({ state, tier, used, monthlyLimit }: KeySummary): string {
  if (state !== "active") return state;
  return monthlyLimit !== null && used >= monthlyLimit ? "quota used up" : tier;
}

/** Renders the demo's keys, and `curl` lines that can be run without a change: only those whose key is shown. */
export function renderDemo(
  keys: readonly DemoKey[],
  { address, config }: { readonly address: string; readonly config: Config },
): string {
  const width = Math.max(...keys.map(({ label }) => label.length));
  const list = keys.map(({ label, apiKey }) => `  ${label.padEnd(width)}  ${apiKey}`).join("\n");
  const tried = Object.fromEntries(keys.map(({ label, apiKey }) => [label, apiKey]));
  const values: Record<string, string> = { ...tried, keys: list, address, host: config.brand.installerHost };
  const isComplete = (line: string) => [...line.matchAll(PLACE)].every(([, name = ""]) => name in values);
  const lines = text.split("\n").filter(isComplete);
  return lines.join("\n").replaceAll(PLACE, (_, name) => values[name] ?? "");
}
