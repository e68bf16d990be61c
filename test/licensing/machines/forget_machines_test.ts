/** Machines that are forgotten: long after their places ended, if there are too many, or by an erasure. */
import { describe, expect, test } from "bun:test";
import type { TaskContext } from "../../../src/database/upkeep/mod.ts";
import {
  activateMachine,
  createMachineNames,
  deleteEndedMachines,
  machinesUpkeep,
  releaseMachine,
} from "../../../src/licensing/machines/mod.ts";
import { eraseAccount } from "../../../src/licensing/mod.ts";
import { ACTOR, NOW, orThrow } from "../../support/issue.ts";
import { licenseWith, setEnd, type TestLicense } from "../../support/machines.ts";
import { openSecrets } from "../../support/secrets.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();
const nameMachine = createMachineNames(openSecrets());
const isStopping = () => false;

async function activate({ keyUuid, licenseUuid }: TestLicense, fingerprint: string) {
  const machine = nameMachine(licenseUuid, `machine-${fingerprint}`);
  const texts = { name: "Workstation of Ada", platform: "linux" };
  return orThrow(await activateMachine(database, { keyUuid, machine, actor: ACTOR, now: NOW, ...texts }));
}

/** Adds machines whose places ended: the first one that many days ago, and each other one a second before. */
async function addEnded({ licenseUuid }: TestLicense, { count, days }: { count: number; days: number }) {
  await database.query(
    (sql) => sql`
      insert into machines (id, license_id, fingerprint, activated_at, last_seen_at, active_until, ended_at)
      select gen_random_uuid(), ${licenseUuid}::uuid, sha256(gen_random_uuid()::text::bytea), at, at, at, at
        from generate_series(0, ${count - 1}::integer) as number,
             lateral (select clock_timestamp() - ${days}::integer * interval '24 hours'
                             - number * interval '1 second' as at) as ended`,
  );
}

async function listMachines({ licenseUuid }: TestLicense) {
  return await database.query<{ name: string | null; platform: string | null; endedAt: Date | null }>(
    (sql) => sql`
      select name, platform, ended_at as "endedAt" from machines where license_id = ${licenseUuid}::uuid
       order by ended_at`,
  );
}

test("The upkeep deletes the releases by id that no bound counts any more", async () => {
  const { licenseUuid } = await licenseWith(database, { maxMachines: 1 });
  await database.query(
    (sql) => sql`
      insert into self_releases (license_id, released_at, machine_id)
      select ${licenseUuid}::uuid, clock_timestamp() - days * interval '24 hours', gen_random_uuid()
        from unnest(array[0, 29, 31, 90]) as days`,
  );
  await machinesUpkeep.run({ database, isStopping } as TaskContext);
  const [left] = await database.query<{ releases: number }>(
    (sql) =>
      sql`select count(*)::integer as releases from self_releases where license_id = ${licenseUuid}::uuid`,
  );
  expect(left?.releases).toBe(2);
});

describe("deleteEndedMachines()", () => {
  test("deletes machines that ended more than 90 days ago, also those whose end nobody has seen", async () => {
    const license = await licenseWith(database, { maxMachines: 9 });
    await activate(license, "node-locked");
    await addEnded(license, { count: 1, days: 89 });
    await addEnded(license, { count: 1, days: 91 });
    const { uuid } = await activate(license, "floating");
    const age = (days: number) =>
      database.query(
        (sql) => sql`
          update machines set active_until = clock_timestamp() - ${days}::integer * interval '24 hours'
           where id = ${uuid}::uuid`,
      );
    await age(89);
    await deleteEndedMachines({ database, isStopping });
    expect(await listMachines(license)).toHaveLength(3);
    await age(91);
    await deleteEndedMachines({ database, isStopping });
    expect(await listMachines(license)).toHaveLength(2);
  });

  test("keeps a machine without an activation as long as a license that was signed for it holds its place", async () => {
    const DAY_MINUTES = 24 * 60;
    for (const how of ["released", "its seat ended"]) {
      const license = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
      const { uuid } = await activate(license, "one");
      await setEnd(database, uuid ?? "", { signed_until: 60 });
      if (how === "released") await releaseMachine(database, nameMachine(license.licenseUuid, "machine-one"));
      else await setEnd(database, uuid ?? "", { active_until: -91 * DAY_MINUTES });
      await deleteEndedMachines({ database, isStopping });
      expect([how, await listMachines(license)]).toMatchObject([how, [{ endedAt: null }]]);
      await expect(activate(license, "two")).rejects.toThrow("Every place");
      for (const [days, left] of [
        [89, 1],
        [91, 0],
      ] as const) {
        await setEnd(database, uuid ?? "", { signed_until: -days * DAY_MINUTES });
        await deleteEndedMachines({ database, isStopping });
        expect([how, days, await listMachines(license)]).toEqual([
          how,
          days,
          expect.objectContaining({ length: left }),
        ]);
      }
    }
  });

  test("deletes at most 10,000 in a run", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    await addEnded(license, { count: 10_001, days: 100 });
    await deleteEndedMachines({ database, isStopping });
    expect(await listMachines(license)).toHaveLength(1);
    await deleteEndedMachines({ database, isStopping });
    expect(await listMachines(license)).toHaveLength(0);
  });
});

describe("activateMachine()", () => {
  test("keeps at most 1,000 machines without a place and 10 for each place, and the oldest go first", async () => {
    const license = await licenseWith(database, { maxMachines: 2 });
    await addEnded(license, { count: 1_200, days: 10 });
    const newest = (await listMachines(license)).at(-1)?.endedAt;
    for (let round = 0; round < 40; round++) {
      const fingerprint = `made-up-${round}`;
      await activate(license, fingerprint);
      await releaseMachine(database, nameMachine(license.licenseUuid, `machine-${fingerprint}`));
      expect((await listMachines(license)).length).toBeLessThanOrEqual(1_020);
    }
    const left = await listMachines(license);
    expect(left.length).toBeGreaterThan(1_000);
    expect(left.map(({ endedAt }) => endedAt?.getTime())).toContain(newest?.getTime());
    expect(left.filter(({ name }) => name !== null)).toHaveLength(40);
    // The audit log names none of them either: they replace as many others.
    const noted = await database.query(
      (sql) =>
        sql`select from audit where license_id = ${license.licenseUuid}::uuid and action = 'machine.activate'`,
    );
    expect(noted).toHaveLength(0);
  });
});

describe("eraseAccount()", () => {
  test("removes the names and platforms of machines, and lets no later activation bring them back", async () => {
    const [license, other] = [
      await licenseWith(database, { maxMachines: 2 }),
      await licenseWith(database, { maxMachines: 1 }),
    ];
    await activate(license, "one");
    await activate(other, "one");
    const [account] = await database.query<{ uuid: string }>(
      (sql) => sql`
        with revoked as (
          update keys set state = 'revoked', revoked_at = ${NOW}::timestamptz where id = ${license.keyUuid}::uuid
        )
        select account_id as uuid from licenses where id = ${license.licenseUuid}::uuid`,
    );
    const erased = await eraseAccount(database, account?.uuid ?? "", { actor: ACTOR, now: NOW });
    expect(erased).toEqual({ isPersonal: true });
    // As by a process that has not learned of the revocation yet.
    await activate(license, "one");
    await activate(license, "two");
    const nothing = { name: null, platform: null };
    expect(await listMachines(license)).toMatchObject([nothing, nothing]);
    expect(await listMachines(other)).toMatchObject([{ name: "Workstation of Ada", platform: "linux" }]);
  });
});
