import type { Database } from "../database/mod.ts";
import type { Log } from "../log.ts";
import type { Secrets } from "../secrets/mod.ts";
import { ensureSigningKeys, listSigningKeys, openSigningKey } from "./signing_keys.ts";

/**
 * Makes the key that signs licenses and its successor if they are missing, and logs that. Warns of a key that cannot be
 * opened: the service starts, because only signed licenses need the key.
 */
export async function prepareSigningKeys(
  database: Database,
  { secrets, now, log }: { readonly secrets: Secrets; readonly now: Date; readonly log: Log },
): Promise<void> {
  const { isMade, replacesEarlier } = await ensureSigningKeys(database, { secrets, now });
  if (isMade && replacesEarlier) {
    log.warn("Made new keys to sign licenses: clients that pinned the earlier keys will refuse new licenses");
  } else if (isMade) log.info("Made the key that signs licenses, and its successor");
  for (const key of await listSigningKeys(database)) {
    const isUsed = key.state === "signing" || key.state === "successor";
    if (isUsed && openSigningKey(secrets, key) === undefined) {
      const { kid, state } = key;
      log.warn("A key that signs licenses cannot be opened: `claviger doctor` says what to do", {
        kid,
        state,
      });
    }
  }
}
