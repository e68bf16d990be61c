/** Licenses that are signed for a machine: they hold its place until they end. */
import { beforeAll, describe, expect, test } from "bun:test";
import { newUuid, toId } from "../../../src/base/ids.ts";
import { isRefusal, type Refusal } from "../../../src/base/refusal.ts";
import {
  activateMachine,
  createHeartbeats,
  createMachineNames,
  listMachines,
  releaseMachine,
} from "../../../src/licensing/machines/mod.ts";
import { createLicenseSigner, ensureSigningKeys } from "../../../src/licensing/signed_licenses/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { ACTOR, BRAND, NOW, orThrow } from "../../support/issue.ts";
import { licenseWith, type Places, type TestLicense } from "../../support/machines.ts";
import { openSecrets } from "../../support/secrets.ts";
import { useDatabase } from "../../support/use.ts";

const DAY_S = 86_400;
const database = useDatabase();
const secrets = openSecrets();
const nameMachine = createMachineNames(secrets);
const heartbeats = createHeartbeats(database, createTestClock());
const signer = createLicenseSigner({
  database,
  secrets,
  brand: BRAND,
  publicUrl: undefined,
  offlineDays: { free: 0, research: 14, commercial: 14, enterprise: 14 },
});

beforeAll(async () => {
  await ensureSigningKeys(database, { secrets, now: NOW });
});

const fingerprintOf = (machine: string) => `machine-${machine}`;
const nameOf = ({ licenseUuid }: TestLicense, machine: string) =>
  nameMachine(licenseUuid, fingerprintOf(machine));

async function activate(license: TestLicense, machine: string) {
  const { keyUuid } = license;
  return await activateMachine(database, {
    keyUuid,
    machine: nameOf(license, machine),
    actor: ACTOR,
    now: NOW,
  });
}

// The places end by the clock of the database, so licenses are signed by a real clock here.
function sign({ keyUuid }: TestLicense, machine: string, now = new Date()) {
  return signer.sign({ keyUuid, actor: ACTOR, now, fingerprint: fingerprintOf(machine) });
}

function exportFor({ keyUuid }: TestLicense, machine: string, days = 14) {
  const fingerprint = fingerprintOf(machine);
  return signer.export({ keyUuid, days, fingerprint, now: new Date(), actor: ACTOR });
}

function release(license: TestLicense, machine: string) {
  return releaseMachine(database, nameOf(license, machine));
}

function expectRefused(outcome: unknown): Refusal {
  if (!isRefusal(outcome)) throw new Error("It was not refused");
  return outcome;
}

async function countNoted({ keyUuid }: TestLicense) {
  const rows = await database.query(
    (sql) => sql`
      select jti from signed_licenses where key_id = ${keyUuid}::uuid
       union all
      select jti from exported_licenses where key_id = ${keyUuid}::uuid`,
  );
  return rows.length;
}

/** Lets the licenses that were signed for the machines of a license end, as if their time had passed. */
async function endSigned({ licenseUuid }: TestLicense) {
  await database.query(
    (sql) => sql`
      update machines set signed_until = clock_timestamp() - interval '1 second'
       where license_id = ${licenseUuid}::uuid`,
  );
}

describe("LicenseSigner.sign() for a license that counts machines", () => {
  test("names the machine in the license", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const { uuid } = orThrow(await activate(license, "one"));
    const { claims } = orThrow(await sign(license, "one"));
    expect(claims).toMatchObject({ fingerprint: "machine-one", machine_id: toId("mch", uuid ?? "") });
  });

  test("refuses a request without a machine, and one for a machine that is not active, and notes nothing", async () => {
    const license = await licenseWith(database, { maxMachines: 2 });
    const { keyUuid } = license;
    for (const fingerprint of [undefined, "seven77"]) {
      const { code, sentence } = expectRefused(
        await signer.sign({ keyUuid, fingerprint, actor: ACTOR, now: new Date() }),
      );
      expect(code).toBe("INVALID_REQUEST");
      expect(sentence).toContain("fingerprint must be 8 to 200 printable ASCII characters");
    }
    expect(expectRefused(await sign(license, "one")).code).toBe("MACHINE_NOT_FOUND");
    await activate(license, "one");
    await release(license, "one");
    expect(expectRefused(await sign(license, "one")).code).toBe("MACHINE_NOT_FOUND");
    expect(await countNoted(license)).toBe(0);
  });

  test("keeps the place taken until the license ends, also after a release", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const { uuid } = orThrow(await activate(license, "one"));
    await sign(license, "one");
    expect(await release(license, "one")).toBe(uuid);
    const refused = expectRefused(await activate(license, "two"));
    expect(refused).toMatchObject({ code: "MACHINE_LIMIT_REACHED", machines: { limit: 1, used: 1 } });
    expect(refused.retryAfterSeconds).toBeWithin(14 * DAY_S - 60, 14 * DAY_S + 1);
    expect(orThrow(await activate(license, "one")).uuid).toBe(uuid);
    await release(license, "one");
    await endSigned(license);
    expect(orThrow(await activate(license, "two")).used).toBe(1);
  });

  test("releases nothing a second time, and no machine that only holds the place of its license", async () => {
    const license = await licenseWith(database, { maxMachines: 2 });
    const { licenseUuid } = license;
    await activate(license, "signed");
    await sign(license, "signed");
    await release(license, "signed");
    await exportFor(license, "exported");
    const read = () =>
      database.query(
        (sql) =>
          sql`select m::text as row from machines m where license_id = ${licenseUuid}::uuid order by id`,
      );
    const before = await read();
    for (const machine of ["signed", "exported"]) expect(await release(license, machine)).toBeUndefined();
    expect([...(await read())]).toEqual([...before]);
  });

  test("keeps the place of a seat that ended, until the last license ends", async () => {
    const license = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
    await activate(license, "one");
    await sign(license, "one", new Date(Date.now() + DAY_S * 1_000));
    // An earlier end does not replace a later one.
    await sign(license, "one");
    await database.query(
      (sql) => sql`
        update machines set active_until = clock_timestamp() - interval '1 second'
         where license_id = ${license.licenseUuid}::uuid`,
    );
    expect(expectRefused(await sign(license, "one")).code).toBe("MACHINE_NOT_FOUND");
    const { retryAfterSeconds } = expectRefused(await activate(license, "two"));
    expect(retryAfterSeconds).toBeWithin(15 * DAY_S - 60, 15 * DAY_S + 1);
  });

  test("signs never for more machines than there are places, however many ask at once", async () => {
    const license = await licenseWith(database, { maxMachines: 3 });
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, async (_, index) => {
        const machine = `m${index}`;
        if (isRefusal(await activate(license, machine))) return false;
        const signed = await sign(license, machine);
        await release(license, machine);
        return !isRefusal(signed);
      }),
    );
    expect(outcomes.filter(Boolean)).toHaveLength(3);
  });

  test("signs for every fingerprint if the license does not count machines, and stores nothing", async () => {
    const license = await licenseWith(database, {});
    for (const fingerprint of [undefined, "7", "x".repeat(200)]) {
      const { keyUuid } = license;
      const { claims } = orThrow(await signer.sign({ keyUuid, fingerprint, actor: ACTOR, now: new Date() }));
      expect(claims).not.toHaveProperty("machine_id");
    }
    const rows = await database.query(
      (sql) => sql`select id from machines where license_id = ${license.licenseUuid}::uuid`,
    );
    expect(rows).toEqual([]);
  });
});

describe("A place that a signed license holds", () => {
  const THREE = { maxMachines: 3, seatMinutes: null };
  /** Changes of a license, each of them and its way back. */
  const CHANGES: readonly (readonly [string, Places, Places])[] = [
    ["the machine limit", { maxMachines: null }, { maxMachines: 1 }],
    ["a lower limit", { maxMachines: 1 }, { maxMachines: 2 }],
    ["the length of seats", { seatMinutes: 5 }, { maxMachines: 1, seatMinutes: null }],
    ["limit and seats", { maxMachines: null, seatMinutes: null }, { maxMachines: 1, seatMinutes: 5 }],
  ];

  test.each(CHANGES)("stays taken when %s changes and comes back", async (_, change, back) => {
    const license = await licenseWith(database, THREE);
    await activate(license, "signed");
    await sign(license, "signed");
    await exportFor(license, "offline");
    await activate(license, "unsigned");

    await license.change(change);
    await license.change(back);

    await release(license, "unsigned");
    expect(expectRefused(await activate(license, "another"))).toMatchObject({
      code: "MACHINE_LIMIT_REACHED",
      machines: { limit: back.maxMachines, used: 2 },
    });
    // Its own machine works on, and takes no further place.
    expect(orThrow(await activate(license, "offline")).used).toBe(2);
    await release(license, "offline");
    await endSigned(license);
    for (const machine of ["signed", "offline"]) await release(license, machine);
    expect(orThrow(await activate(license, "another")).used).toBe(1);
  });

  test("reads as offline while machines are not counted, and has ended with its license", async () => {
    const license = await licenseWith(database, THREE);
    const { licenseUuid } = license;
    await activate(license, "unsigned");
    await activate(license, "signed");
    await sign(license, "signed");
    const states = async () =>
      (await listMachines(database, { filter: { licenseUuid } })).map(({ state }) => state);

    await license.change({ maxMachines: null });
    expect(await states()).toEqual(["ended", "offline"]);

    await endSigned(license);
    expect(await states()).toEqual(["ended", "ended"]);
  });

  test("reads as offline after an export and after a release, then tells why it holds none", async () => {
    const license = await licenseWith(database, THREE);
    const { licenseUuid } = license;
    await exportFor(license, "exported");
    await activate(license, "signed");
    await sign(license, "signed");
    await release(license, "signed");
    const states = async () =>
      (await listMachines(database, { filter: { licenseUuid } })).map(({ state }) => state);
    expect(await states()).toEqual(["offline", "offline"]);

    await endSigned(license);
    // The first one was never released.
    expect(await states()).toEqual(["ended", "released"]);

    // Another place makes it forget the release.
    await exportFor(license, "signed");
    await endSigned(license);
    expect(await states()).toEqual(["ended", "ended"]);
  });

  test("is not counted if its license was signed while machines were not counted", async () => {
    const license = await licenseWith(database, {});
    orThrow(await exportFor(license, "one"));
    await license.change({ maxMachines: 1 });
    expect(orThrow(await activate(license, "two")).used).toBe(1);
  });
});

describe("LicenseSigner.export() for a license that counts machines", () => {
  test("takes a place for the time of the file, without an activation", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const { claims } = orThrow(await exportFor(license, "one"));
    expect(await heartbeats.renew(nameOf(license, "one"))).toBeNull();
    const { retryAfterSeconds } = expectRefused(await activate(license, "two"));
    expect(retryAfterSeconds).toBeWithin(14 * DAY_S - 60, 14 * DAY_S + 1);
    const { uuid } = orThrow(await activate(license, "one"));
    expect(claims).toMatchObject({ fingerprint: "machine-one", machine_id: toId("mch", uuid ?? "") });
    const [row] = await database.query<{ machine: string }>(
      (sql) => sql`
        select after ->> 'machine' as machine from audit
         where action = 'license.export' and license_id = ${license.licenseUuid}::uuid`,
    );
    expect(row?.machine).toBe(toId("mch", uuid ?? ""));
  });

  test("lets an active machine stay active, and its place outlast a release", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const { uuid } = orThrow(await activate(license, "one"));
    expect(orThrow(await exportFor(license, "one")).claims.machine_id).toBe(toId("mch", uuid ?? ""));
    expect(await heartbeats.renew(nameOf(license, "one"))).toMatchObject({ uuid });
    await release(license, "one");
    expect(expectRefused(await activate(license, "two")).code).toBe("MACHINE_LIMIT_REACHED");
  });

  test("refuses when every place is taken, says until when, and notes nothing", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    await activate(license, "one");
    const locked = expectRefused(await exportFor(license, "two"));
    expect(locked.code).toBe("CONFLICT");
    expect(locked.sentence).toBe(
      "Cannot export license: 1 of 1 places for machines are taken; release an active machine, or give the license more places",
    );
    expect(await countNoted(license)).toBe(0);
    await exportFor(license, "one");
    await release(license, "one");
    expect(expectRefused(await exportFor(license, "two")).sentence).toMatch(
      /: 1 of 1 places for machines are taken, the next one until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ; release an active machine, .*; the place of a signed license ends with it, or an admin frees it$/,
    );
  });

  test("refuses a file that names no machine", async () => {
    const { keyUuid } = await licenseWith(database, { maxMachines: 1 });
    for (const fingerprint of [undefined, "seven77"]) {
      const refused = expectRefused(
        await signer.export({ keyUuid, days: 1, fingerprint, now: new Date(), actor: ACTOR }),
      );
      expect(refused).toMatchObject({ code: "INVALID_REQUEST", fields: [{ field: "fingerprint" }] });
      expect(refused.sentence).toContain("8 to 200 printable ASCII characters");
    }
  });

  test("refuses an unknown key with a machine", async () => {
    const refused = await signer.export({
      keyUuid: newUuid(),
      days: 1,
      fingerprint: "machine-one",
      now: new Date(),
      actor: ACTOR,
    });
    expect(expectRefused(refused).code).toBe("KEY_NOT_FOUND");
  });
});
