import { createSecrets, parseRootSecret, type Secrets } from "../../src/secrets/mod.ts";
import { TEST_SECRET } from "./service.ts";

/** Returns what seals and signs with a root secret, by default with that of the test services. */
export function openSecrets(rootSecret = TEST_SECRET): Secrets {
  const parsed = parseRootSecret(rootSecret);
  if (!parsed.ok) throw new Error(parsed.error);
  return createSecrets(parsed.rootSecret);
}
