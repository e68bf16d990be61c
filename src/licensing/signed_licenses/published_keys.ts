import { hash } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import type { Database } from "../../database/mod.ts";
import { toJwk } from "./jws.ts";
import { listSigningKeys } from "./signing_keys.ts";

export interface PublishedKeys {
  /** A JWK set (RFC 7517) as JSON. */
  readonly body: string;
  /** Changes with the body. */
  readonly etag: string;
}

/** How long the keys are cached. */
const FRESH_MS = 1_000;

/**
 * Creates the function that returns the public keys: the signing key, its successor, and older keys that are not
 * retired. Anyone may ask for them, so all requests within a second share one query.
 */
export function createPublishedKeys(database: Database, clock: Clock): () => Promise<PublishedKeys> {
  let latest: Promise<PublishedKeys> | undefined;
  let readAtMs = 0;

  async function read(): Promise<PublishedKeys> {
    const keys = await listSigningKeys(database);
    const body = JSON.stringify({ keys: keys.map(({ publicKey }) => toJwk(publicKey)) });
    return { body, etag: `"${hash("sha256", body, "base64url")}"` };
  }

  return () => {
    const nowMs = clock.monotonicMs();
    if (latest === undefined || nowMs - readAtMs >= FRESH_MS) {
      readAtMs = nowMs;
      const reading = read();
      latest = reading;
      reading.catch(() => {
        if (latest === reading) latest = undefined;
      });
    }
    return latest;
  };
}
