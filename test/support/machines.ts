/** Licenses with places for machines. */

import { DAY_MS } from "../../src/base/calendar.ts";
import { parseId } from "../../src/base/ids.ts";
import { type Database, toTextArray } from "../../src/database/mod.ts";
import { activateMachine, createMachineNames } from "../../src/licensing/machines/mod.ts";
import { ACTOR, issue, NOW, orThrow } from "./issue.ts";
import { openSecrets } from "./secrets.ts";
import type { TestService } from "./service.ts";

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

/** The machine of requests that name none. */
export const FINGERPRINT = "workstation-7";

/** Issues a key whose license has places, at a service. Returns it with a function that sends requests about machines. */
export async function issuePlaces(at: TestService, places: Places) {
  const { id, apiKey, licenseUuid } = await at.issue();
  await setPlaces(at.database, licenseUuid, places);
  const post = (action: string, fields: object = { fingerprint: FINGERPRINT }, by = at) =>
    by.post(`/v1/machines/${action}`, { api_key: apiKey, ...fields });
  return { post, licenseUuid, apiKey, keyUuid: parseId("key", id) ?? "" };
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

const nameMachine = createMachineNames(openSecrets());

/** Activates a machine of a license, and returns its UUID; throws if the license refuses it. */
export async function placeMachine(
  database: Database,
  { licenseUuid, keyUuid }: Pick<TestLicense, "licenseUuid" | "keyUuid">,
  fingerprint: string,
): Promise<string> {
  const machine = nameMachine(licenseUuid, `machine-${fingerprint}`);
  const texts = { name: `laptop ${fingerprint}`, platform: "linux" };
  const by = { actor: ACTOR, now: NOW };
  return orThrow(await activateMachine(database, { keyUuid, machine, ...texts, ...by })).uuid ?? "";
}

/** Lets an activation, or the last license that was signed for a machine, end so many minutes from now. */
export async function setEnd(
  database: Database,
  uuid: string,
  ends: { readonly active_until: number } | { readonly signed_until: number },
): Promise<void> {
  const [[column, minutes] = ["", 0]] = Object.entries(ends);
  const at = new Date(Date.now() + minutes * 60_000);
  await database.query((sql) => sql`update machines set ${sql({ [column]: at })} where id = ${uuid}::uuid`);
}

/** Lets the last activation or heartbeat of machines lie so many days back. */
export async function setSeen(database: Database, uuids: readonly string[], daysAgo: number): Promise<void> {
  const at = new Date(Date.now() - daysAgo * DAY_MS);
  await database.query(
    (sql) => sql`
      update machines set last_seen_at = ${at}::timestamptz where id = any(${toTextArray(uuids)}::uuid[])`,
  );
}
