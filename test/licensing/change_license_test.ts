import { describe, expect, test } from "bun:test";
import { endOfDay, NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { newUuid, parseId } from "../../src/base/ids.ts";
import { type IssuedKey, revokeKey, rotateKey } from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  findLicense,
  type LicenseChange,
  type LicenseValues,
  oneYearAfter,
  type Restriction,
  refuseNewKey,
} from "../../src/licensing/mod.ts";
import { overtake } from "../support/in_transaction.ts";
import { ACTOR, BRAND, issue, NOW } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();

function change(
  { licenseUuid }: { licenseUuid: string },
  change: LicenseChange,
  restriction?: Restriction,
  said: { readonly shorten?: boolean; readonly seen?: LicenseValues } = {},
) {
  return changeLicense(
    createLicenseChanges(server.database),
    { licenseUuid },
    { change, actor: ACTOR, now: NOW, restriction, ...said },
  );
}

const SHORTEN = { shorten: true } as const;

const find = ({ licenseUuid }: IssuedKey) => findLicense(server.database, licenseUuid, { now: NOW });

async function auditOf({ licenseUuid }: IssuedKey) {
  const rows = await server.database.query<{ action: string; key_id: string; before: object; after: object }>(
    (sql) => sql`
      select action, key_id, before, after from audit
       where license_id = ${licenseUuid}::uuid and action <> 'key.issue' order by id`,
  );
  return [...rows];
}

describe("changeLicense()", () => {
  test("changeLicense() changes every value of a license at once, with one row in the audit log", async () => {
    const key = await issue(server.database, { externalId: "order-1" });
    const expiresAt = new Date("2027-06-01T00:00:00Z");
    const all = { tier: "commercial", monthlyLimit: 7, expiresAt, externalId: "order-2" } as const;
    expect(await change(key, all, undefined, SHORTEN)).toMatchObject({
      licenseUuid: key.licenseUuid,
      isChanged: true,
    });
    expect(await find(key)).toMatchObject({ ...all, keys: [{ id: key.id, mode: "live", state: "active" }] });
    expect(await change(key, all)).toMatchObject({ licenseUuid: key.licenseUuid, isChanged: false });
    expect(await auditOf(key)).toMatchObject([
      {
        ...{ action: "license.change", key_id: uuidOf(key) },
        before: { tier: "research", monthly_limit: null },
        after: { tier: "commercial", monthly_limit: 7, changed: ["external_id"] },
      },
    ]);
  });

  test.each(["keyUuid", "licenseUuid"] as const)(
    "changeLicense() by its %s keeps another value that changes at the same moment, and logs it as the state before",
    async (by) => {
      const key = await issue(server.database);
      const name = by === "keyUuid" ? { keyUuid: uuidOf(key) } : { licenseUuid: key.licenseUuid };
      const changed = await overtake(
        server,
        (sql) => sql`update licenses set tier = 'commercial' where id = ${key.licenseUuid}::uuid`,
        () =>
          changeLicense(createLicenseChanges(server.database), name, {
            ...{ change: { monthlyLimit: 7 }, actor: ACTOR, now: NOW },
          }),
      );
      expect(changed).toMatchObject({ isChanged: true });
      expect(await find(key)).toMatchObject({ tier: "commercial", monthlyLimit: 7 });
      expect(await auditOf(key)).toMatchObject([
        {
          before: { tier: "commercial", monthly_limit: null },
          after: { tier: "commercial", monthly_limit: 7 },
        },
      ]);
    },
  );

  test("changeLicense() writes the same row for the license's id as for its key, with the value's own action", async () => {
    const [byId, byKey] = [await issue(server.database), await issue(server.database)];
    const changes: LicenseChange[] = [
      { tier: "free" },
      { monthlyLimit: 3 },
      { monthlyLimit: null },
      { expiresAt: new Date("2027-06-01T00:00:00Z") },
    ];
    for (const change of changes) {
      const options = { change, actor: ACTOR, now: NOW, ...SHORTEN };
      await changeLicense(createLicenseChanges(server.database), { licenseUuid: byId.licenseUuid }, options);
      await changeLicense(createLicenseChanges(server.database), { keyUuid: uuidOf(byKey) }, options);
    }
    const rows = await auditOf(byId);
    expect(rows.map(({ action }) => action)).toEqual([
      "license.tier",
      "license.limit",
      "license.limit",
      "license.renew",
    ]);
    expect(rows.map((row) => ({ ...row, key_id: uuidOf(byKey) }))).toEqual(await auditOf(byKey));
  });

  test("changeLicense() refuses an unknown license and an expiry in the past", async () => {
    expect(await change({ licenseUuid: newUuid() }, { tier: "free" })).toMatchObject({ code: "NOT_FOUND" });
    const key = await issue(server.database);
    expect(await change(key, { expiresAt: NOW })).toMatchObject({ code: "INVALID_REQUEST" });
  });

  test("changeLicense() changes only the external id of a license whose keys are all revoked", async () => {
    const key = await issue(server.database, { externalId: "revoked-1" });
    const next = await rotateKey(
      createLicenseChanges(server.database),
      { uuid: uuidOf(key), mode: "live", overlapMs: 0 },
      { brand: BRAND, actor: ACTOR, now: NOW },
    );
    if (!("id" in next) || next.id === undefined) throw new Error("not rotated");
    await revokeKey(createLicenseChanges(server.database), { uuid: uuidOf(key) }, { actor: ACTOR, now: NOW });
    expect(await change(key, { monthlyLimit: 4 })).toMatchObject({ isChanged: true });
    await revokeKey(
      createLicenseChanges(server.database),
      { uuid: parseId("key", next.id) ?? "" },
      { actor: ACTOR, now: NOW },
    );
    for (const refused of [{ monthlyLimit: 5 }, { monthlyLimit: 5, externalId: null }]) {
      expect(await change(key, refused)).toMatchObject({ code: "CONFLICT" });
    }
    expect(await find(key)).toMatchObject({ externalId: "revoked-1", monthlyLimit: 4 });
    expect(await change(key, { externalId: null })).toMatchObject({ isChanged: true });
    expect(await find(key)).toMatchObject({ externalId: null });
    const other = await issue(server.database, { externalId: "revoked-1" });
    expect(await find(other)).toMatchObject({ externalId: "revoked-1" });
  });

  test("changeLicense() refuses an external id that another license has, and compares bytes", async () => {
    const [one, two] = [await issue(server.database, { externalId: "Zoë" }), await issue(server.database)];
    expect(await change(two, { externalId: "Zoë", tier: "free" })).toMatchObject({
      code: "ALREADY_EXISTS",
      id: (await find(one))?.id,
    });
    expect(await find(two)).toMatchObject({ externalId: null, tier: "research" });
    // The letter in two characters, another case, and a blank are other bytes.
    for (const externalId of ["Zoe\u0308", "zoë", "Zoë "]) {
      expect(await change(two, { externalId })).toMatchObject({ isChanged: true });
    }
  });
});

describe("changeLicense() to an earlier expiry", () => {
  const FROM = new Date("2027-08-28T12:00:00Z");
  const TO = new Date("2027-06-30T23:59:59Z");

  test.each([
    ["alone", {}],
    ["with a higher tier and limit", { tier: "enterprise", monthlyLimit: 10 ** 6 }],
  ] as const)("changeLicense() refuses it %s, names both, and changes nothing", async (_, more) => {
    const key = await issue(server.database, { expiresAt: FROM });
    const before = await find(key);
    expect(await change(key, { ...more, expiresAt: TO })).toMatchObject({
      code: "CONFLICT",
      stem: expect.stringContaining(
        "the expiry would become earlier, from 2027-08-28T12:00:00Z to 2027-06-30T23:59:59Z",
      ),
    });
    expect(await find(key)).toEqual(before as NonNullable<typeof before>);
    expect(await auditOf(key)).toEqual([]);
    const done = await change(key, { ...more, expiresAt: TO }, undefined, SHORTEN);
    expect(done).toMatchObject({ isChanged: true, before: { expiresAt: FROM }, after: { expiresAt: TO } });
    expect(await find(key)).toMatchObject({ expiresAt: TO });
  });

  test("changeLicense() says that a license without an end would get one", async () => {
    const key = await issue(server.database);
    expect(await change(key, { expiresAt: TO })).toMatchObject({
      stem: "Cannot renew license: the expiry would become earlier, from never to 2027-06-30T23:59:59Z",
    });
    expect(await find(key)).toMatchObject({ expiresAt: NEVER_EXPIRES });
  });

  test("changeLicense() needs no word for a later or the same expiry, or for one after it has expired", async () => {
    const key = await issue(server.database, { expiresAt: TO });
    expect(await change(key, { expiresAt: TO })).toMatchObject({ isChanged: false });
    expect(await change(key, { expiresAt: FROM })).toMatchObject({ isChanged: true });
    const ended = await issue(server.database, { expiresAt: FROM });
    await server.database.query(
      (sql) => sql`update licenses set expires_at = '2020-01-01' where id = ${ended.licenseUuid}::uuid`,
    );
    expect(await change(ended, { expiresAt: TO })).toMatchObject({ isChanged: true });
  });

  test("changeLicense() refuses an expiry that another change overtook with a later one", async () => {
    const key = await issue(server.database, { expiresAt: TO });
    const middle = new Date("2027-07-15T00:00:00Z");
    const refused = await overtake(
      server,
      (sql) => sql`update licenses set expires_at = ${FROM} where id = ${key.licenseUuid}::uuid`,
      () => change(key, { expiresAt: middle }),
    );
    expect(refused).toMatchObject({ code: "CONFLICT" });
    expect(await find(key)).toMatchObject({ expiresAt: FROM });
  });
});

describe("changeLicense() of values that were seen", () => {
  const seen = {
    tier: "research",
    monthlyLimit: 50_000,
    maxMachines: null,
    seatMinutes: null,
    selfReleases: null,
    showsMachines: null,
    maxOfflineDays: null,
    termDays: null,
    latestStart: null,
    startedAt: null,
    updatesUntil: null,
    ownFeatures: {},
    ownEntitlements: {},
    expiresAt: oneYearAfter(NOW),
  } as const;

  test.each([
    ["tier", { tier: "enterprise" }],
    ["limit", { monthlyLimit: 7 }],
    ["machines", { maxMachines: 3 }],
    ["number of releases", { selfReleases: 5 }],
    ["choice of names", { showsMachines: false }],
    ["number of offline days", { maxOfflineDays: 0 }],
    ["expiry", { expiresAt: NEVER_EXPIRES }],
    ["end of updates", { updatesUntil: new Date("2030-01-31T23:59:59Z") }],
    ["feature", { ownFeatures: { custom_models: { granted: true } } }],
    ["value", { ownEntitlements: { channels: 64 } }],
  ] as const)("changeLicense() refuses it if the %s is another by now", async (_, meanwhile) => {
    const key = await issue(server.database, { expiresAt: seen.expiresAt });
    await change(key, meanwhile, undefined, SHORTEN);
    const before = await find(key);
    expect(await change(key, { tier: "commercial" }, undefined, { seen, shorten: true })).toMatchObject({
      code: "CONFLICT",
      stem: "Cannot change tier: it was changed after these values were shown; look at it again",
    });
    expect(await find(key)).toEqual(before as NonNullable<typeof before>);
  });

  test("changeLicense() makes it if nothing changed, and once", async () => {
    const key = await issue(server.database, { expiresAt: seen.expiresAt });
    const to = { tier: "commercial" } as const;
    expect(await change(key, to, undefined, { seen })).toMatchObject({
      isChanged: true,
      before: seen,
      after: { ...seen, tier: "commercial", monthlyLimit: 500_000 },
    });
    expect(await change(key, to, undefined, { seen })).toMatchObject({ isChanged: false });
  });
});

describe("changeLicense() of places", () => {
  const NEEDS_BOTH = "seat minutes need a machine limit, so give both";

  test("changeLicense() sets, changes and removes the machine limit and the seat minutes, each with a row in the audit log", async () => {
    const key = await issue(server.database);
    const steps: [LicenseChange, maxMachines: number | null, seatMinutes: number | null][] = [
      [{ maxMachines: 5 }, 5, null],
      [{ seatMinutes: 30 }, 5, 30],
      [{ maxMachines: 1_000_000, seatMinutes: 1_440 }, 1_000_000, 1_440],
      [{ seatMinutes: null }, 1_000_000, null],
      [{ maxMachines: 2, seatMinutes: 5 }, 2, 5],
      [{ maxMachines: null }, null, null],
    ];
    for (const [step, maxMachines, seatMinutes] of steps) {
      expect(await change(key, step)).toMatchObject({ isChanged: true });
      expect(await find(key)).toMatchObject({ maxMachines, seatMinutes });
      expect(await change(key, step)).toMatchObject({ isChanged: false });
    }
    const rest = { tier: "research", monthly_limit: null, expires_at: "9999-12-31T23:59:59+00:00" };
    const places: object[] = [
      {},
      { max_machines: 5 },
      { max_machines: 5, seat_minutes: 30 },
      { max_machines: 1_000_000, seat_minutes: 1_440 },
      { max_machines: 1_000_000 },
      { max_machines: 2, seat_minutes: 5 },
      {},
    ];
    expect(await auditOf(key)).toEqual(
      steps.map((_, index) => ({
        ...{ action: "license.machines", key_id: uuidOf(key) },
        before: { ...rest, ...places[index] },
        after: { ...rest, ...places[index + 1] },
      })),
    );
  });

  test("changeLicense() keeps the places in a change of other values", async () => {
    const key = await issue(server.database, { maxMachines: 30, seatMinutes: 15 });
    expect(await change(key, { tier: "commercial", maxMachines: undefined })).toMatchObject({
      isChanged: true,
    });
    expect(await find(key)).toMatchObject({ tier: "commercial", maxMachines: 30, seatMinutes: 15 });
    expect(await auditOf(key)).toMatchObject([
      { action: "license.tier", after: { max_machines: 30, seat_minutes: 15 } },
    ]);
    await change(key, { monthlyLimit: 7, maxMachines: 31 });
    expect((await auditOf(key))[1]).toMatchObject({ action: "license.change", after: { max_machines: 31 } });
  });

  test("changeLicense() refuses seat minutes without a machine limit, and changes nothing", async () => {
    const [plain, floating] = [
      await issue(server.database),
      await issue(server.database, { maxMachines: 3, seatMinutes: 5 }),
    ];
    for (const [key, wanted] of [
      [plain, { seatMinutes: 5 }],
      [plain, { maxMachines: null, seatMinutes: 5 }],
      [floating, { maxMachines: null, seatMinutes: 5 }],
    ] as const) {
      expect(await change(key, wanted)).toMatchObject({
        code: "INVALID_REQUEST",
        sentence: `Cannot change machines: ${NEEDS_BOTH}`,
        fields: [{ field: "seat_minutes", error: NEEDS_BOTH }],
      });
      expect(await auditOf(key)).toEqual([]);
    }
    expect(await change(plain, { seatMinutes: null })).toMatchObject({ isChanged: false });
  });

  test("changeLicense() refuses seat minutes if the machine limit is removed at the same moment", async () => {
    const key = await issue(server.database, { maxMachines: 3 });
    const refused = await overtake(
      server,
      (sql) => sql`update licenses set max_machines = null where id = ${key.licenseUuid}::uuid`,
      () => change(key, { seatMinutes: 5 }),
    );
    expect(refused).toMatchObject({ code: "INVALID_REQUEST" });
    expect(await find(key)).toMatchObject({ maxMachines: null, seatMinutes: null });
  });

  test("changeLicense() refuses to change the places of a license whose keys are all revoked", async () => {
    const key = await issue(server.database, { maxMachines: 3 });
    await revokeKey(createLicenseChanges(server.database), { uuid: uuidOf(key) }, { actor: ACTOR, now: NOW });
    for (const wanted of [{ maxMachines: 4 }, { maxMachines: null }, { seatMinutes: 5 }])
      expect(await change(key, wanted)).toMatchObject({ code: "CONFLICT" });
    expect(await find(key)).toMatchObject({ maxMachines: 3, seatMinutes: null });
  });
});

describe("changeLicense() with a restriction", () => {
  const LOW: Restriction = { tiers: ["free", "research"] };
  const later = new Date(endOfDay(oneYearAfter(NOW)).getTime() + 1_000);

  const refused: [what: string, held: Parameters<typeof issue>[1], LicenseChange, Restriction][] = [
    ["an upgrade to another tier", {}, { tier: "enterprise" }, LOW],
    ["a license of another tier", { tier: "enterprise" }, { tier: "free" }, LOW],
    ["the external id of a license of another tier", { tier: "enterprise" }, { externalId: "x" }, LOW],
    ["a license with a key of the other mode", {}, { monthlyLimit: 1 }, { mode: "test" }],
    ["a limit above the tier's", { tier: "free" }, { monthlyLimit: 10_001 }, LOW],
    ["a limit of the old tier", {}, { tier: "free", monthlyLimit: 50_000 }, LOW],
    ["a lower tier that would keep the limit", { monthlyLimit: 50_000 }, { tier: "free" }, LOW],
    ["an expiry after more than a year", { expiresAt: oneYearAfter(NOW) }, { expiresAt: later }, LOW],
    ["no expiry", { expiresAt: oneYearAfter(NOW) }, { expiresAt: NEVER_EXPIRES }, LOW],
    ["more machines", { maxMachines: 3 }, { maxMachines: 4 }, LOW],
    ["to stop counting machines", { maxMachines: 3 }, { maxMachines: null }, LOW],
    ["floating seats in place of node-locked machines", { maxMachines: 3 }, { seatMinutes: 5 }, LOW],
    ["other seats", { maxMachines: 3, seatMinutes: 5 }, { maxMachines: 2, seatMinutes: 6 }, LOW],
    ["releases by clients", {}, { selfReleases: 0 }, LOW],
    ["names of machines for clients", {}, { showsMachines: false }, LOW],
    ["offline days", {}, { maxOfflineDays: 0 }, LOW],
    ["more machines, for a token with only a mode", { maxMachines: 3 }, { maxMachines: 4 }, { mode: "live" }],
    ["a limit, for a token with only a mode", { mode: "test" }, { monthlyLimit: 50_001 }, { mode: "test" }],
  ];
  for (const [what, held, wanted, restriction] of refused) {
    test(`changeLicense() with a restriction refuses ${what}, and changes nothing`, async () => {
      const key = await issue(server.database, held);
      const before = await find(key);
      expect(await change(key, wanted, restriction)).toMatchObject({ code: "NOT_ALLOWED" });
      expect(await find(key)).toEqual(before as NonNullable<typeof before>);
      expect(await auditOf(key)).toEqual([]);
      expect(await change(key, wanted)).toMatchObject({ isChanged: true });
    });
  }

  test("changeLicense() with a restriction allows changes within the tier's defaults", async () => {
    const key = await issue(server.database, { tier: "free", monthlyLimit: 20_000 });
    // The values that an operator gave stay, also when they are sent again.
    for (const same of [{ tier: "free" }, { monthlyLimit: 20_000 }, { expiresAt: NEVER_EXPIRES }] as const) {
      expect(await change(key, same, LOW)).toMatchObject({ isChanged: false });
    }
    expect(await change(key, { externalId: "kept" }, LOW)).toMatchObject({ isChanged: true });
    const within = {
      tier: "research",
      monthlyLimit: 50_000,
      expiresAt: endOfDay(oneYearAfter(NOW)),
    } as const;
    expect(await change(key, within, LOW, SHORTEN)).toMatchObject({ isChanged: true });
    expect(await change(key, { tier: "free", monthlyLimit: null }, LOW)).toMatchObject({ isChanged: true });
    // Machines that are not counted can be counted from now on, and fewer of them.
    for (const places of [{ maxMachines: 30, seatMinutes: 15 }, { maxMachines: 29 }])
      expect(await change(key, places, LOW)).toMatchObject({ isChanged: true });
    expect(await change(key, { maxMachines: 29, seatMinutes: 15 }, LOW)).toMatchObject({ isChanged: false });
    expect(await find(key)).toMatchObject({ maxMachines: 29, seatMinutes: 15 });
    const unlimited = await issue(server.database, { tier: "enterprise" });
    const enterprise = { tiers: ["enterprise"] } as const;
    expect(await change(unlimited, { monthlyLimit: 10 ** 9 }, enterprise)).toMatchObject({ isChanged: true });
  });
});

describe("The end of updates", () => {
  const on = (day: string) => new Date(`${day}T23:59:59Z`);

  test("becomes later or none without a word, and earlier only with shorten; a refusal changes nothing", async () => {
    const key = await issue(server.database);
    const earlier = await change(key, { updatesUntil: on("2028-06-30") });
    expect(earlier).toMatchObject({
      code: "CONFLICT",
      stem: "Cannot change updates: the end of updates would become earlier, from never to 2028-06-30T23:59:59Z",
    });
    expect(await find(key)).toMatchObject({ updatesUntil: null });
    expect(await auditOf(key)).toEqual([]);
    expect(await change(key, { updatesUntil: on("2028-06-30") }, undefined, SHORTEN)).toMatchObject({
      before: { updatesUntil: null },
      after: { updatesUntil: on("2028-06-30") },
    });
    expect(await change(key, { updatesUntil: on("2028-06-29") })).toMatchObject({ code: "CONFLICT" });
    expect(await change(key, { updatesUntil: on("2029-06-30") })).toMatchObject({ isChanged: true });
    expect(await change(key, { updatesUntil: on("2029-06-30") })).toMatchObject({ isChanged: false });
    expect(await change(key, { updatesUntil: null })).toMatchObject({ isChanged: true });
    expect(await auditOf(key)).toMatchObject([
      { action: "license.updates", after: { updates_until: "2028-06-30T23:59:59+00:00" } },
      {
        before: { updates_until: "2028-06-30T23:59:59+00:00" },
        after: { updates_until: "2029-06-30T23:59:59+00:00" },
      },
      { before: { updates_until: "2029-06-30T23:59:59+00:00" } },
    ]);
  });

  test("is not for a restricted actor, in an issue or in a change", async () => {
    const restriction = { tiers: ["research"] } as const;
    const key = await issue(server.database, { updatesUntil: on("2028-06-30") });
    expect(await change(key, { updatesUntil: null }, restriction)).toMatchObject({ code: "NOT_ALLOWED" });
    expect(await find(key)).toMatchObject({ updatesUntil: on("2028-06-30") });
    const request = { tier: "research", mode: "live", now: NOW, expiresAt: on("2027-01-31") } as const;
    expect(refuseNewKey(restriction, request)).toBeUndefined();
    expect(refuseNewKey(restriction, { ...request, updatesUntil: on("2028-06-30") })).toMatchObject({
      code: "NOT_ALLOWED",
    });
  });
});
