import { createSecrets, parseRootSecret, type Secrets } from "../../src/base/secrets/mod.ts";

/** The root secret of the test services; it protects no data. */
export const TEST_SECRET = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/** Returns what seals and signs with a root secret, by default with that of the test services. */
export function openSecrets(rootSecret = TEST_SECRET): Secrets {
  const parsed = parseRootSecret(rootSecret);
  if (!parsed.ok) throw new Error(parsed.error);
  return createSecrets(parsed.rootSecret);
}
