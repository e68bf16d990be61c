import { type Clock, systemClock } from "../../src/clock.ts";
import type { Database } from "../../src/database/mod.ts";
import { newUuid } from "../../src/ids.ts";
import { createKeyCache } from "../../src/keys/key_cache.ts";
import { createPulse } from "../../src/keys/pulse.ts";
import { silentLog } from "../../src/log.ts";

/**
 * Makes a pulse and its cache without a service process. Until a test starts the pulse, it beats only when the test
 * calls it. `database` must have one connection: on another connection the pulse would clear the whole cache.
 */
export function createLonePulse(database: Database, clock: Clock = systemClock) {
  const cache = createKeyCache({ clock, maxKeys: 1_000 });
  const pulse = createPulse({ database, cache, clock, log: silentLog, processUuid: newUuid() });
  return { cache, pulse };
}
