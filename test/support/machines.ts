/** Licenses with places for machines. */
import type { Database } from "../../src/database/mod.ts";
import { parseId } from "../../src/ids.ts";
import { issue } from "./issue.ts";

/** Null removes a limit; a limit that is left out stays as it is. */
export interface Places {
  readonly maxMachines?: number | null;
  readonly seatMinutes?: number | null;
}

export interface TestLicense {
  readonly apiKey: string;
  readonly keyUuid: string;
  readonly licenseUuid: string;
  /** Changes the places. */
  change(places: Places): Promise<void>;
}

/** Issues a key whose license has places. */
export async function licenseWith(database: Database, places: Places): Promise<TestLicense> {
  const { id, apiKey, licenseUuid } = await issue(database);
  const change = (to: Places) => setPlaces(database, licenseUuid, to);
  await change(places);
  return { apiKey, keyUuid: parseId("key", id) ?? "", licenseUuid, change };
}

/** Sets the places of a license. */
export async function setPlaces(database: Database, licenseUuid: string, places: Places): Promise<void> {
  const { maxMachines, seatMinutes } = places;
  const columns = {
    ...(maxMachines !== undefined && { max_machines: maxMachines }),
    ...(seatMinutes !== undefined && { seat_minutes: seatMinutes }),
  };
  if (Object.keys(columns).length === 0) return;
  await database.query((sql) => sql`update licenses set ${sql(columns)} where id = ${licenseUuid}::uuid`);
}
