import { type Clock, systemClock } from "../../src/base/clock.ts";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import type { Database } from "../../src/database/mod.ts";
import { createKeyCache } from "../../src/licensing/keys/key_cache.ts";
import { createPulse } from "../../src/licensing/keys/pulse.ts";

/**
 * Makes a pulse and its cache without a service process. Until a test starts the pulse, it beats only when the test
 * calls it. `database` must have one connection: on another connection the pulse would clear the whole cache.
 */
export function createLonePulse(database: Database, clock: Clock = systemClock) {
  const cache = createKeyCache({ clock, maxKeys: 1_000 });
  const pulse = createPulse({ database, cache, clock, log: silentLog, processUuid: newUuid() });
  return { cache, pulse };
}
