/** What operators see of machines, and how they release one. */
import { describe, expect, test } from "bun:test";
import { parseId, toId } from "../../../src/base/ids.ts";
import { rotateKey } from "../../../src/licensing/keys/mod.ts";
import {
  findMachine,
  findReleasable,
  listMachines,
  type MachineFilter,
  noteEnds,
  releaseByOperator,
  renderMachine,
} from "../../../src/licensing/machines/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import { ACTOR, BRAND, NOW, orThrow, sentenceOf } from "../../support/issue.ts";
import { licenseWith, placeMachine, setEnd, type TestLicense } from "../../support/machines.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();
const BY = { actor: { ...ACTOR, reason: "the laptop was lost" }, now: NOW };

const place = (license: TestLicense, fingerprint: string) => placeMachine(database, license, fingerprint);

async function list(filter: MachineFilter): Promise<string[]> {
  const machines = await listMachines(database, { filter });
  return machines.map(({ id }) => parseId("mch", id) ?? "");
}

/** A license with a machine in each state: the offline one was released while a signed license holds its place. */
async function inEveryState() {
  const license = await licenseWith(database, { maxMachines: 5, seatMinutes: 60 });
  const active = await place(license, "active");
  const offline = await place(license, "offline");
  await setEnd(database, offline, { signed_until: 60 });
  const released = await place(license, "released");
  const ended = await place(license, "ended");
  for (const uuid of [offline, released]) orThrow(await releaseByOperator(database, uuid, BY));
  await setEnd(database, ended, { active_until: -1 });
  await noteEnds({ database, isStopping: () => false });
  return { license, active, offline, released, ended };
}

describe("listMachines()", () => {
  test("shows each state by the clock of the database, with the ends that matter", async () => {
    const { license, active, offline, released, ended } = await inEveryState();
    const machines = await listMachines(database, { filter: { licenseUuid: license.licenseUuid } });
    expect(machines.map(({ id, state }) => [parseId("mch", id), state])).toEqual([
      [active, "active"],
      [offline, "offline"],
      [released, "released"],
      [ended, "ended"],
    ]);
    expect(
      machines.map(({ activeUntil, takenUntil }) => [activeUntil !== null, takenUntil !== null]),
    ).toEqual([
      [true, true],
      [false, true],
      [false, false],
      [false, false],
    ]);
    expect(machines[0]).toMatchObject({ name: "laptop active", platform: "linux" });
  });

  test("keeps the place of a node-locked machine until a release", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const uuid = await place(license, "one");
    const machine = await findMachine(database, uuid);
    expect(machine).toMatchObject({ state: "active", activeUntil: null, takenUntil: null });
    if (machine === undefined) throw new Error("There is such a machine");
    expect(renderMachine(machine)).toMatchObject({
      id: toId("mch", uuid),
      license_id: toId("lic", license.licenseUuid),
      email: expect.stringContaining("@example.org"),
      active_until: null,
      taken_until: null,
      last_seen_at: expect.stringMatching(/Z$/),
    });
  });

  test("filters by each condition and by several together", async () => {
    const { license, active, offline, released, ended } = await inEveryState();
    const other = await licenseWith(database, { maxMachines: 1 });
    const elsewhere = await place(other, "elsewhere");
    const { licenseUuid, keyUuid } = license;
    const first = await findMachine(database, active);
    const accountUuid = parseId("usr", first?.userId ?? "");
    const all = [active, offline, released, ended];
    expect(await list({ licenseUuid })).toEqual(all);
    expect(await list({ keyUuid })).toEqual(all);
    expect(await list({ accountUuid })).toEqual(all);
    expect(await list({ licenseUuid, keyUuid: other.keyUuid })).toEqual([]);
    expect(await list({ accountUuid, state: "released" })).toEqual([released]);
    expect(await list({ keyUuid, state: "offline" })).toEqual([offline]);
    expect(await list({ licenseUuid, state: "active", newestFirst: true })).toEqual([active]);
    for (const [state, uuids] of [
      ["active", [active, elsewhere]],
      ["offline", [offline]],
      ["released", [released]],
      ["ended", [ended]],
    ] as const) {
      const found = await list({ state });
      expect(found.filter((uuid) => [...all, elsewhere].includes(uuid))).toEqual([...uuids]);
    }
  });

  test("continues after a machine, in both directions", async () => {
    const { license, active, offline, released, ended } = await inEveryState();
    const { licenseUuid } = license;
    expect(await list({ licenseUuid, limit: 2 })).toEqual([active, offline]);
    expect(await list({ licenseUuid, limit: 2, afterUuid: offline })).toEqual([released, ended]);
    expect(await list({ licenseUuid, limit: 1, newestFirst: true, afterUuid: ended })).toEqual([released]);
    expect((await list({ limit: 1, newestFirst: true }))[0]).toBe(ended);
    const another = await place(license, "another");
    orThrow(await releaseByOperator(database, another, BY));
    expect(await list({ licenseUuid, state: "released", limit: 1 })).toEqual([released]);
    expect(await list({ licenseUuid, state: "released", limit: 1, afterUuid: released })).toEqual([another]);
  });

  test("shows a restricted reader only machines of licenses with a key that it may see", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const uuid = await place(license, "one");
    const { licenseUuid } = license;
    for (const restriction of [{ tiers: ["free"] }, { mode: "test" }] as const) {
      expect(await list({ licenseUuid, restriction })).toEqual([]);
      expect(await findMachine(database, uuid, { restriction })).toBeUndefined();
      expect(sentenceOf(await releaseByOperator(database, uuid, { ...BY, restriction }))).toContain(
        "there is no machine",
      );
    }
    expect(await list({ licenseUuid, restriction: { tiers: ["research"], mode: "live" } })).toEqual([uuid]);
    expect(await findMachine(database, uuid)).toMatchObject({ state: "active" });
  });
});

describe("releaseByOperator()", () => {
  async function findReleases(licenseUuid: string) {
    return await database.query(
      (sql) => sql`
        select key_id as "keyUuid", account_id is not null as "hasAccount", before, after, reason
          from audit where action = 'machine.release' and license_id = ${licenseUuid}::uuid order by id`,
    );
  }

  test("frees the place at once, and notes who did it and why, with the newest key", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const change = { uuid: license.keyUuid, mode: "live", overlapMs: 0 } as const;
    const rotated = await rotateKey(createLicenseChanges(database), change, {
      actor: ACTOR,
      now: NOW,
      brand: BRAND,
    });
    const uuid = await place(license, "one");
    const id = toId("mch", uuid);
    expect(await releaseByOperator(database, uuid, BY)).toEqual({
      id,
      state: "released",
      takenUntil: null,
      isChanged: true,
    });
    expect(await findReleases(license.licenseUuid)).toEqual([
      {
        keyUuid: parseId("key", orThrow(rotated).id),
        hasAccount: true,
        before: { machine: id, state: "active" },
        after: { machine: id, state: "released" },
        reason: "the laptop was lost",
      },
    ]);
    await place(license, "two");
  });

  test("does not free the place while a license that was signed for the machine is valid", async () => {
    const license = await licenseWith(database, { maxMachines: 1 });
    const uuid = await place(license, "one");
    await setEnd(database, uuid, { signed_until: 60 });
    const released = orThrow(await releaseByOperator(database, uuid, BY));
    expect(released).toMatchObject({ state: "offline", isChanged: true, takenUntil: expect.any(Date) });
    await expect(place(license, "two")).rejects.toThrow("Every place");
    expect(await releaseByOperator(database, uuid, BY)).toEqual({ ...released, isChanged: false });
    const releases = await findReleases(license.licenseUuid);
    expect(releases).toMatchObject([{ after: { state: "offline", taken_until: expect.any(String) } }]);
  });

  test("refuses a machine that holds no place, and an unknown machine", async () => {
    const { license, released, ended } = await inEveryState();
    const before = await findReleases(license.licenseUuid);
    for (const uuid of [released, ended]) {
      expect(await releaseByOperator(database, uuid, BY)).toMatchObject({ code: "CONFLICT" });
      expect(sentenceOf(await findReleasable(database, uuid))).toBe(
        "Cannot release machine: it holds no place",
      );
    }
    const unknown = await releaseByOperator(database, license.licenseUuid, BY);
    expect(unknown).toMatchObject({ code: "NOT_FOUND" });
    expect(await findReleases(license.licenseUuid)).toEqual(before);
  });
});
