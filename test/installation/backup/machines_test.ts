/** Machines are in backups, and a restore gives each seat a whole term. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import {
  activateMachine,
  createHeartbeats,
  createMachineNames,
  releaseMachine,
} from "../../../src/licensing/machines/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { createTestDatabase } from "../../support/database.ts";
import { ACTOR, NOW, orThrow } from "../../support/issue.ts";
import { licenseWith, type Places, type TestLicense } from "../../support/machines.ts";
import { openSecrets } from "../../support/secrets.ts";
import { useTestDatabase } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { backUp, restore } from "./backup_kit.ts";

const folder = useFolder();
const source = useTestDatabase();
const nameMachine = createMachineNames(openSecrets());
const nameOf = ({ licenseUuid }: TestLicense) => nameMachine(licenseUuid, "machine-one");

/** Issues a license with one active machine. */
async function licenseWithMachine(places: Places) {
  const license = await licenseWith(source.database, places);
  const { keyUuid } = license;
  const name = "Workstation of Ada";
  orThrow(
    await activateMachine(source.database, {
      keyUuid,
      machine: nameOf(license),
      name,
      actor: ACTOR,
      now: NOW,
    }),
  );
  return license;
}

async function set({ licenseUuid }: TestLicense, columns: Record<string, string>) {
  await source.database.query(
    (sql) => sql`update machines set ${sql(columns)} where license_id = ${licenseUuid}::uuid`,
  );
}

async function stateOf({ licenseUuid }: TestLicense, database = source.database) {
  const [row] = await database.query<{ machine: object; minutesLeft: number | null; isHeld: boolean }>(
    (sql) => sql`
      select to_jsonb(m) - 'active_until' - 'ended_at' as machine, ended_at is null as "isHeld",
             round(extract(epoch from case when isfinite(active_until) then active_until - clock_timestamp() end) / 60)
               ::integer as "minutesLeft"
        from machines m where license_id = ${licenseUuid}::uuid`,
  );
  return row;
}

/** Before the backup, which is made at `NOW`. */
const BEFORE = new Date(NOW.getTime() - 3_600_000).toISOString();
const IN_A_MINUTE = new Date(Date.now() + 60_000).toISOString();
const TOMORROW = new Date(Date.now() + 86_400_000).toISOString();

test("a restore gives every seat that had not ended one term from now, and changes no other machine", async () => {
  const [floating, ended, locked, released, over] = [
    await licenseWithMachine({ maxMachines: 1, seatMinutes: 30 }),
    await licenseWithMachine({ maxMachines: 1, seatMinutes: 30 }),
    await licenseWithMachine({ maxMachines: 1 }),
    await licenseWithMachine({ maxMachines: 1, seatMinutes: 30 }),
    await licenseWithMachine({ maxMachines: 1, seatMinutes: 30 }),
  ];
  await set(floating, { active_until: IN_A_MINUTE });
  await set(over, { active_until: BEFORE });
  await releaseMachine(source.database, nameOf(ended));
  await set(released, { signed_until: TOMORROW });
  await releaseMachine(source.database, nameOf(released));
  const licenses = [floating, ended, locked, released, over];
  const before = await Promise.all(licenses.map((license) => stateOf(license)));
  expect(before[0]?.minutesLeft).toBeWithin(0, 2);
  await backUp(source.address, join(folder, "backup"));

  await using target = await createTestDatabase({ empty: true });
  await restore(target.address, join(folder, "backup"));
  const after = await Promise.all(licenses.map((license) => stateOf(license, target.database)));
  expect(after).toEqual(before.with(0, { ...before[0], minutesLeft: 30 } as (typeof before)[0]));
  expect(after.map((state) => state?.isHeld)).toEqual([true, false, true, true, true]);
  const { renew } = createHeartbeats(target.database, createTestClock());
  expect(await renew(nameOf(floating))).not.toBeNull();
  expect(await renew(nameOf(locked))).toMatchObject({ activeUntil: null });
  expect(await renew(nameOf(ended))).toBeNull();
  expect(await renew(nameOf(over))).toBeNull();
});

test("a restore without the secret releases every machine, except that a signed license holds its place", async () => {
  const [locked, signed] = [
    await licenseWithMachine({ maxMachines: 1 }),
    await licenseWithMachine({ maxMachines: 1 }),
  ];
  await set(signed, { signed_until: TOMORROW });
  await backUp(source.address, join(folder, "sealed"));

  await using target = await createTestDatabase({ empty: true });
  await restore(target.address, join(folder, "sealed"), { withoutSealed: true });
  expect(await stateOf(locked, target.database)).toMatchObject({ isHeld: false });
  expect(await stateOf(signed, target.database)).toMatchObject({ isHeld: true, minutesLeft: null });
});
