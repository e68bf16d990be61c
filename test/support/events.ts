/** Makes usage events for tests that store them without HTTP. */

import { newUuid } from "../../src/base/ids.ts";
import type { Database } from "../../src/database/mod.ts";
import type { UsageEvent } from "../../src/usage/mod.ts";

/** As much room for texts as no test needs. */
export const MUCH_ROOM = { licenseBytes: 1e9, installationBytes: 1e12 };

/** Makes an inference event of a license; `fields` replaces any field. */
export function usageEvent(fields: Partial<UsageEvent> = {}): UsageEvent {
  return {
    uuid: newUuid(),
    receivedAtMs: Date.now(),
    occurredAtMs: null,
    keyUuid: newUuid(),
    licenseUuid: newUuid(),
    type: "inference",
    modelName: null,
    inferenceType: "batch",
    durationMs: 12.5,
    success: true,
    errorMessage: null,
    metadata: null,
    claim: null,
    ...fields,
  };
}

/** The counts of a license's months, and the stored events that they must agree with. */
export interface Sums {
  /** Units by the counter of each month, by the days of each month, and by the stored events. */
  readonly used: number;
  readonly byDay: number;
  readonly stored: number;
}

/** Reads the sums of one license, or of all licenses. */
export async function readSums(database: Database, licenseUuid: string | null = null): Promise<Sums> {
  const [sums] = await database.query<Sums>(
    (sql) => sql`
      select coalesce(sum(used), 0)::bigint as used,
             coalesce(sum((select sum(units) from unnest(by_day) as units)), 0)::bigint as "byDay",
             (select count(*) from events
               where event_type = 'inference'
                 and (${licenseUuid}::uuid is null or license_id = ${licenseUuid}::uuid)) as stored
        from usage where ${licenseUuid}::uuid is null or license_id = ${licenseUuid}::uuid`,
  );
  if (sums === undefined) throw new Error("No sums");
  return sums;
}
