/** An admin frees the place of a machine that a signed license holds. */
import { describe, expect, test } from "bun:test";
import { toId } from "../../../src/base/ids.ts";
import {
  countTaken,
  findFreeable,
  findMachine,
  freeByOperator,
  renderMachine,
} from "../../../src/licensing/machines/mod.ts";
import { ACTOR, NOW, orThrow, sentenceOf } from "../../support/issue.ts";
import { licenseWith, placeMachine, setEnd, type TestLicense } from "../../support/machines.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();
const BY = { actor: { ...ACTOR, reason: "the computer burned" }, now: NOW };

const place = (license: TestLicense, fingerprint: string) => placeMachine(database, license, fingerprint);

/** A license with one place, which a signed license holds for an hour. */
async function withSigned(state: "active" | "offline") {
  const license = await licenseWith(database, { maxMachines: 1 });
  const uuid = await place(license, "one");
  await setEnd(database, uuid, { signed_until: 60 });
  if (state === "offline") await setEnd(database, uuid, { active_until: -1 });
  const machine = orThrow(await findFreeable(database, uuid));
  expect(machine.state).toBe(state);
  return { license, uuid, id: toId("mch", uuid), signedUntil: machine.signedUntil };
}

async function findFreed({ licenseUuid }: TestLicense) {
  return await database.query(
    (sql) => sql`
      select before, after, reason, key_id as "keyUuid", account_id is not null as "hasAccount"
        from audit where action = 'machine.free' and license_id = ${licenseUuid}::uuid order by id`,
  );
}

describe("freeByOperator()", () => {
  test.each(["active", "offline"] as const)(
    "gives the place of an %s machine to another one at once, and says until when the file works",
    async (state) => {
      const { license, uuid, id, signedUntil } = await withSigned(state);
      await expect(place(license, "two")).rejects.toThrow("Every place");

      expect(await freeByOperator(database, uuid, BY)).toEqual({
        id,
        state: "released",
        fileWorksUntil: signedUntil,
      });

      const machine = await findMachine(database, uuid);
      expect(machine).toMatchObject({ state: "released", takenUntil: null, signedUntil: null });
      expect(await countTaken(database, license.licenseUuid)).toBe(0);
      await place(license, "two");
      // The machine itself needs a place again.
      await expect(place(license, "one")).rejects.toThrow("Every place");
      await license.change({ maxMachines: 2 });
      expect(await place(license, "one")).toBe(uuid);
      expect(await findMachine(database, uuid)).toMatchObject({ state: "active", signedUntil: null });
    },
  );

  test("notes the machine before and after, the end of the file and the reason, with the newest key", async () => {
    const { license, uuid, id } = await withSigned("offline");
    await freeByOperator(database, uuid, BY);
    const end = expect.stringMatching(/^\d{4}-\d\d-\d\dT/);
    expect(await findFreed(license)).toEqual([
      {
        before: { machine: id, state: "offline", taken_until: end },
        after: { machine: id, state: "released", file_works_until: end },
        reason: "the computer burned",
        keyUuid: license.keyUuid,
        hasAccount: true,
      },
    ]);
  });

  test("tells every process that a full license has a place", async () => {
    const { license, uuid } = await withSigned("offline");
    const changed = async () =>
      (
        await database.query<{ xid: string }>(
          (sql) => sql`select changed_xid::text as xid from licenses where id = ${license.licenseUuid}::uuid`,
        )
      )[0]?.xid;
    const before = await changed();
    await freeByOperator(database, uuid, BY);
    expect(await changed()).not.toBe(before);
  });

  test("refuses a machine whose place no signed license holds, and changes nothing", async () => {
    const license = await licenseWith(database, { maxMachines: 2 });
    const [active, ended] = [await place(license, "active"), await place(license, "ended")];
    await setEnd(database, active, { signed_until: -1 });
    await setEnd(database, ended, { active_until: -1 });
    const refusals = [
      [active, "no signed license holds it; release the machine"],
      [ended, "it holds none"],
    ] as const;
    for (const [uuid, why] of refusals) {
      const before = await findMachine(database, uuid);
      for (const refused of [await freeByOperator(database, uuid, BY), await findFreeable(database, uuid)]) {
        expect(refused).toMatchObject({ code: "CONFLICT" });
        expect(sentenceOf(refused)).toBe(`Cannot free the place of the machine: ${why}`);
      }
      expect(await findMachine(database, uuid)).toEqual(before as never);
    }
    expect(await findFreed(license)).toEqual([]);
  });

  test("refuses an unknown machine, one that was freed, and one that a restriction does not allow", async () => {
    const { license, uuid, id } = await withSigned("offline");
    const foreign = await freeByOperator(database, uuid, { ...BY, restriction: { tiers: ["free"] } });
    expect(sentenceOf(foreign)).toBe(`Cannot free the place of machine: there is no machine ${id}`);
    expect(await freeByOperator(database, license.licenseUuid, BY)).toMatchObject({ code: "NOT_FOUND" });
    expect(await findFreed(license)).toEqual([]);
    orThrow(await freeByOperator(database, uuid, BY));
    expect(await freeByOperator(database, uuid, BY)).toMatchObject({ code: "CONFLICT" });
    expect(await findFreed(license)).toHaveLength(1);
  });
});

test("a machine shows until when a signed license holds its place", async () => {
  const { uuid } = await withSigned("active");
  const machine = await findMachine(database, uuid);
  if (machine === undefined) throw new Error("There is such a machine");
  expect(renderMachine(machine)).toMatchObject({
    id: toId("mch", uuid),
    taken_until: null,
    signed_until: expect.stringMatching(/Z$/),
  });
});
