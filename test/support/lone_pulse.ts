import { systemClock } from "../../src/clock.ts";
import type { Database } from "../../src/database/mod.ts";
import { newUuid } from "../../src/ids.ts";
import { createKeyCache } from "../../src/keys/key_cache.ts";
import { createPulse } from "../../src/keys/pulse.ts";
import { silentLog } from "../../src/log.ts";

/**
 * A pulse of a process that there is not, and its cache: it beats when it is told to, until it is started. On a
 * database of one connection: with every other one it would forget everything.
 */
export function createLonePulse(database: Database) {
  const cache = createKeyCache({ clock: systemClock });
  const pulse = createPulse({ database, cache, clock: systemClock, log: silentLog, processUuid: newUuid() });
  return { cache, pulse };
}
