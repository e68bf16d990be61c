/** The places of a license: who gets one, how long it lasts, and who is refused. */
import { describe, expect, test } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import type { Database } from "../../../src/database/mod.ts";
import {
  activateMachine,
  createHeartbeats,
  createMachineNames,
  releaseMachine,
} from "../../../src/licensing/machines/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { ACTOR, NOW } from "../../support/issue.ts";
import { licenseWith, type TestLicense } from "../../support/machines.ts";
import { openSecrets } from "../../support/secrets.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();
/** Opened before each test runs. */
const database: Database = { query: (...given) => server.database.query(...given) } as Database;
const nameMachine = createMachineNames(openSecrets());
const heartbeats = createHeartbeats(database, createTestClock());

function activate({ licenseUuid, keyUuid }: TestLicense, fingerprint: string, more: { name?: string } = {}) {
  const machine = nameMachine(licenseUuid, `machine-${fingerprint}`);
  return activateMachine(database, { keyUuid, machine, actor: ACTOR, now: NOW, ...more });
}

/** Activates a machine; throws if the license refuses it. */
async function place(license: TestLicense, fingerprint: string) {
  const activated = await activate(license, fingerprint);
  if (isRefusal(activated)) throw new Error(activated.sentence);
  return activated;
}

function beat({ licenseUuid }: TestLicense, fingerprint: string) {
  return heartbeats.renew(nameMachine(licenseUuid, `machine-${fingerprint}`));
}

function release({ licenseUuid }: TestLicense, fingerprint: string) {
  return releaseMachine(database, nameMachine(licenseUuid, `machine-${fingerprint}`));
}

/** Lets the seat of a machine end, as if its time had passed. */
async function endSeat({ licenseUuid }: TestLicense, fingerprint: string) {
  const { hash } = nameMachine(licenseUuid, `machine-${fingerprint}`);
  await database.query(
    (sql) => sql`
      update machines set active_until = clock_timestamp() - interval '1 second'
       where license_id = ${licenseUuid}::uuid and fingerprint = ${`\\x${hash}`}::text::bytea`,
  );
}

async function countHeld({ licenseUuid }: TestLicense) {
  const [row] = await database.query<{ held: number }>(
    (sql) => sql`
      select count(*)::int as held from machines where license_id = ${licenseUuid}::uuid and ended_at is null`,
  );
  return row?.held;
}

describe("activateMachine()", () => {
  test("gives each machine a place until all are taken, and the same machine its own again", async () => {
    const license = await licenseWith(database, { maxMachines: 2 });
    const first = await place(license, "one");
    expect(first).toMatchObject({ activeUntil: null, most: 2, used: 1 });
    expect(await place(license, "two")).toMatchObject({ used: 2 });
    expect((await place(license, "one")).uuid).toBe(first.uuid);
    const refused = await activate(license, "three");
    expect(refused).toMatchObject({
      code: "MACHINE_LIMIT_REACHED",
      machines: { limit: 2, used: 2 },
      retryAfterSeconds: undefined,
    });
    expect(await countHeld(license)).toBe(2);
  });

  test("says since when a machine has its place: a renewal keeps the moment, a new place has a new one", async () => {
    const license = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
    const { uuid } = await place(license, "one");
    /** Tells whether the moment, an hour ago, is as before after a further activation. */
    const keepsMoment = async () => {
      await database.query(
        (sql) => sql`update machines set activated_at = now() - interval '1 hour' where id = ${uuid}::uuid`,
      );
      await place(license, "one");
      const [row] = await database.query<{ isOld: boolean; isNow: boolean }>(
        (sql) => sql`
          select activated_at < now() - interval '59 minutes' as "isOld",
                 activated_at > now() - interval '5 minutes' as "isNow"
            from machines where id = ${uuid}::uuid`,
      );
      expect(row?.isOld).toBe(!row?.isNow);
      return row?.isOld;
    };
    expect(await keepsMoment()).toBe(true);
    await release(license, "one");
    expect(await keepsMoment()).toBe(false);
    await endSeat(license, "one");
    expect(await keepsMoment()).toBe(false);
  });

  test("stores nothing for a license that does not count machines", async () => {
    const license = await licenseWith(database, {});
    expect(await place(license, "one")).toEqual({ uuid: null, activeUntil: null, most: null, used: 0 });
    expect(await beat(license, "one")).toMatchObject({ uuid: null, activeUntil: null });
    expect(await release(license, "one")).toBeNull();
    expect(await countHeld(license)).toBe(0);
  });

  test("says when the next seat can end, and gives its place away then", async () => {
    const license = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
    const { activeUntil } = await place(license, "one");
    expect(activeUntil).toBeInstanceOf(Date);
    const refused = await activate(license, "two");
    if (!isRefusal(refused)) throw new Error("The place is taken");
    expect(refused.retryAfterSeconds).toBeWithin(290, 301);
    await endSeat(license, "one");
    expect(await place(license, "two")).toMatchObject({ used: 1 });
    expect(await beat(license, "one")).toBeNull();
    expect(await countHeld(license)).toBe(1);
  });

  test("never gives one place to two of many machines that ask at once", async () => {
    const license = await licenseWith(database, { maxMachines: 5 });
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_, index) => activate(license, `m${index}`)),
    );
    expect(outcomes.filter((outcome) => !isRefusal(outcome))).toHaveLength(5);
    expect(await countHeld(license)).toBe(5);
  });

  test("keeps places beyond a lower limit, and gives no new one until they fit", async () => {
    const license = await licenseWith(database, { maxMachines: 3 });
    for (const name of ["one", "two", "three"]) await place(license, name);
    await license.change({ maxMachines: 1 });
    expect(await place(license, "two")).toMatchObject({ most: 1, used: 3 });
    await release(license, "one");
    expect(await activate(license, "four")).toMatchObject({ machines: { limit: 1, used: 2 } });
    await release(license, "two");
    expect(await activate(license, "four")).toMatchObject({ machines: { limit: 1, used: 1 } });
    await release(license, "three");
    expect(await place(license, "four")).toMatchObject({ most: 1, used: 1 });
  });

  test("writes the first activation of a machine to the audit log, without its texts", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const { uuid } = await place(license, "one");
    await activate(license, "one", { name: "Workstation of Ada" });
    await release(license, "one");
    await place(license, "one");
    const rows = await database.query(
      (sql) => sql`
        select action, after from audit
         where license_id = ${license.licenseUuid}::uuid and action like 'machine.%'`,
    );
    const machine = `mch_${uuid?.replaceAll("-", "")}`;
    expect(rows).toEqual([{ action: "machine.activate", after: { machine } }]);
  });

  test("keeps the machines of two licenses apart, and stores no fingerprint", async () => {
    const [one, other] = [
      await licenseWith(database, { maxMachines: 1 }),
      await licenseWith(database, { maxMachines: 1 }),
    ];
    const hashOf = ({ licenseUuid }: TestLicense) => nameMachine(licenseUuid, "machine-same").hash;
    expect(hashOf(one)).not.toBe(hashOf(other));
    await place(one, "same");
    expect(await beat(other, "same")).toBeNull();
    expect(await place(other, "same")).toMatchObject({ used: 1 });
    const [dump] = await database.query<{ text: string }>(
      (sql) => sql`select json_agg(m)::text as text from machines m`,
    );
    expect(dump?.text).not.toContain("machine-same");
  });
});

describe("createHeartbeats()", () => {
  test("renews a seat for a whole term, and tells a machine whose seat ended", async () => {
    const license = await licenseWith(database, { maxMachines: 2, seatMinutes: 10 });
    const { uuid } = await place(license, "one");
    await database.query(
      (sql) => sql`
        update machines set active_until = clock_timestamp() + interval '1 minute' where id = ${uuid}::uuid`,
    );
    const [renewed, unknown] = await Promise.all([beat(license, "one"), beat(license, "two")]);
    expect(renewed?.uuid).toBe(uuid);
    expect((renewed?.activeUntil?.getTime() ?? 0) - Date.now()).toBeGreaterThan(9 * 60_000);
    expect(unknown).toBeNull();
    await endSeat(license, "one");
    expect(await beat(license, "one")).toBeNull();
  });

  test("keeps a node-locked machine without an end", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    await place(license, "one");
    expect(await beat(license, "one")).toMatchObject({ activeUntil: null });
  });

  test("gives a seat that was given away never back, also not after the clock steps back", async () => {
    const license = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
    await place(license, "one");
    await endSeat(license, "one");
    await place(license, "two");
    // As after a step back: by the clock of now the seat of the first machine would last.
    await database.query(
      (sql) => sql`
        update machines set active_until = clock_timestamp() + interval '1 minute'
         where license_id = ${license.licenseUuid}::uuid and ended_at is not null`,
    );
    expect(await beat(license, "one")).toBeNull();
    expect(await activate(license, "one")).toMatchObject({ machines: { limit: 1, used: 1 } });
  });
});

test("a license that another statement holds delays its own heartbeats only", async () => {
  const [held, other] = [
    await licenseWith(database, { maxMachines: 1, seatMinutes: 5 }),
    await licenseWith(database, { maxMachines: 1, seatMinutes: 5 }),
  ];
  for (const license of [held, other]) await place(license, "one");
  const { waiting } = await inTransaction(server.address, async (sql) => {
    await sql`select from licenses where id = ${held.licenseUuid}::uuid for update`;
    const renewal = beat(held, "one");
    expect((await beat(other, "one"))?.uuid).toBeString();
    await until(async () => (await countWaiting(database)) > 0);
    expect((await beat(other, "one"))?.uuid).toBeString();
    return { waiting: renewal };
  });
  expect((await waiting)?.uuid).toBeString();
});

describe("releaseMachine()", () => {
  test("frees the place at once, and tells a machine that is not active", async () => {
    const license = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
    const { uuid } = await place(license, "one");
    expect(await release(license, "one")).toBe(uuid);
    expect(await release(license, "one")).toBeUndefined();
    expect(await beat(license, "one")).toBeNull();
    expect(await place(license, "two")).toMatchObject({ used: 1 });
  });
});

describe("a change of a license", () => {
  test("to seats gives each active machine one term from now, and to node-locked no end", async () => {
    const license = await licenseWith(database, { maxMachines: 2 });
    await place(license, "one");
    await license.change({ seatMinutes: 5 });
    const { activeUntil } = await place(license, "one");
    expect(activeUntil).toBeInstanceOf(Date);
    await place(license, "two");
    await endSeat(license, "two");
    await license.change({ seatMinutes: null });
    expect(await beat(license, "one")).toMatchObject({ activeUntil: null });
    expect(await beat(license, "two")).toBeNull();
    expect(await countHeld(license)).toBe(1);
  });

  test("without a limit ends all places", async () => {
    const license = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
    await place(license, "one");
    await license.change({ maxMachines: null, seatMinutes: null });
    expect(await countHeld(license)).toBe(0);
    await license.change({ maxMachines: 1 });
    expect(await beat(license, "one")).toBeNull();
    expect(await place(license, "two")).toMatchObject({ used: 1 });
  });
});
