/**
 * Heartbeats. Those that arrive within a tenth of a second are written by one statement, and each is answered after its
 * commit: so thousands of seats cost little more than a few.
 */
import type { Clock } from "../clock.ts";
import { createLookUpQueue, type Database, toTextArray } from "../database/mod.ts";
import type { MachineName } from "./fingerprint.ts";

export interface RenewedSeat {
  /** Null if the license has no limit: then nothing is stored. */
  readonly uuid: string | null;
  /** When the seat ends without another heartbeat; null if only a release ends the activation. */
  readonly activeUntil: Date | null;
}

export interface Heartbeats {
  /** Renews the seat of a machine; null if the machine is not active. */
  renew(machine: MachineName): Promise<RenewedSeat | null>;
}

/** Creates the heartbeats of a process. They wait in a line for each license, so a busy license delays only itself. */
export function createHeartbeats(database: Database, clock: Clock): Heartbeats {
  const queue = createLookUpQueue<RenewedSeat>({
    clock,
    find: (texts) => renewSeats(database, texts.map(parseLine)),
  });
  return {
    renew: (machine) => queue.lookUp(renderLine(machine), machine.licenseUuid, { isGathered: true }),
  };
}

function renderLine({ licenseUuid, hash }: MachineName): string {
  return `${licenseUuid} ${hash}`;
}

function parseLine(text: string): MachineName {
  const [licenseUuid = "", hash = ""] = text.split(" ");
  return { licenseUuid, hash };
}

async function renewSeats(
  database: Database,
  machines: readonly MachineName[],
): Promise<Map<string, RenewedSeat>> {
  const rows = await database.query<RenewedSeat & MachineName>(
    (sql) => sql`
      select license_id as "licenseUuid", encode(fingerprint, 'hex') as hash, machine_id as uuid,
             nullif(active_until, 'infinity') as "activeUntil"
        from renew_seats(${toTextArray(machines.map(({ licenseUuid }) => licenseUuid))}::uuid[],
                         ${toTextArray(machines.map(({ hash }) => `\\x${hash}`))}::bytea[])`,
  );
  return new Map(rows.map((row) => [renderLine(row), row]));
}
