/**
 * Heartbeats. Those that arrive within a tenth of a second are written by one statement, and each is answered after its
 * commit: so thousands of seats cost little more than a few.
 */
import type { Clock } from "../../base/clock.ts";
import { createLookUpQueue, type Database, toTextArray } from "../../database/mod.ts";
import type { MachineName } from "./fingerprint.ts";

export interface RenewedSeat {
  /** Null if the license has no limit: then nothing is stored. */
  readonly uuid: string | null;
  /** When the seat ends without another heartbeat; null if only a release ends the activation. */
  readonly activeUntil: Date | null;
}

export type Heartbeats = ReturnType<typeof createHeartbeats>;

/**
 * Creates the heartbeats of a process. A statement renews no seat of a license that another statement holds. Those
 * heartbeats are sent again in a statement that waits, so that they delay no others.
 */
export function createHeartbeats(database: Database, clock: Clock) {
  const createQueue = (waits: boolean) =>
    createLookUpQueue<Beat>({
      clock,
      find: (texts) => renewSeats(database, texts.map(parseLine), { waits }),
    });
  const prompt = createQueue(false);
  const patient = createQueue(true);
  return {
    /** Renews the seat of a machine; null if the machine is not active. */
    async renew(machine: MachineName): Promise<RenewedSeat | null> {
      const [line, { licenseUuid }] = [renderLine(machine), machine];
      const beat = await prompt.lookUp(line, licenseUuid, { isGathered: true });
      return beat?.isBusy ? await patient.lookUp(line, licenseUuid) : beat;
    },
  };
}

interface Beat extends RenewedSeat {
  /** Whether another statement holds the license, so that nothing was renewed. */
  readonly isBusy: boolean;
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
  { waits }: { readonly waits: boolean },
): Promise<Map<string, Beat>> {
  const rows = await database.query<Beat & MachineName>(
    (sql) => sql`
      select license_id as "licenseUuid", encode(fingerprint, 'hex') as hash, machine_id as uuid,
             nullif(active_until, 'infinity') as "activeUntil", is_busy as "isBusy"
        from renew_seats(${toTextArray(machines.map(({ licenseUuid }) => licenseUuid))}::uuid[],
                         ${toTextArray(machines.map(({ hash }) => `\\x${hash}`))}::bytea[],
                         ${waits}::boolean)`,
  );
  return new Map(rows.map((row) => [renderLine(row), row]));
}
