import { refuse } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import { type MachineName, toStoredFingerprint } from "./fingerprint.ts";

/** The refusal for a client whose machine is not active. */
export const MACHINE_NOT_ACTIVE = refuse(
  "MACHINE_NOT_FOUND",
  "The machine is not active: it was released, or its seat ended; activate it again",
);

/**
 * Releases a machine for its client: it is not active any more, and its place is free as soon as the last license that
 * was signed for it has ended. Returns the UUID of the machine; null if the license has no limit, undefined if the
 * machine is not active.
 */
export async function releaseMachine(
  database: Database,
  machine: MachineName,
): Promise<string | null | undefined> {
  const [row] = await database.query<{ uuid: string | null; most: number | null }>(
    (sql) => sql`
      select r.id as uuid, l.max_machines as most
        from licenses l
        left join release_place(l.id, ${toStoredFingerprint(sql, machine)}) r on true
       where l.id = ${machine.licenseUuid}::uuid`,
  );
  return row?.most === null ? null : (row?.uuid ?? undefined);
}
