/** The upkeep notes which machines lost their places by time alone, so that the lists of a state are short to read. */
import { expect, test } from "bun:test";
import { parseId } from "../../../src/base/ids.ts";
import { listMachines, MACHINE_STATES, noteEnds } from "../../../src/licensing/machines/mod.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { licenseWith, placeMachine, setEnd, type TestLicense } from "../../support/machines.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();
const note = () => noteEnds({ database: server.database, isStopping: () => false });

/** Returns the list of each state. */
async function lists({ licenseUuid }: TestLicense) {
  const lists: Record<string, (string | undefined)[]> = {};
  for (const state of MACHINE_STATES) {
    const machines = await listMachines(server.database, { filter: { licenseUuid, state } });
    expect(machines.map((machine) => machine.state)).toEqual(machines.map(() => state));
    lists[state] = machines.map(({ id }) => parseId("mch", id));
  }
  return lists;
}

test("noteEnds() moves a seat that ended to the list of its state, and leaves every place that is held", async () => {
  const license = await licenseWith(server.database, { maxMachines: 9, seatMinutes: 30 });
  const [held, signed, gone] = [
    await placeMachine(server.database, license, "held"),
    await placeMachine(server.database, license, "signed"),
    await placeMachine(server.database, license, "gone"),
  ];
  await setEnd(server.database, signed, { signed_until: 60 });
  for (const uuid of [signed, gone]) await setEnd(server.database, uuid, { active_until: -1 });
  // Before the note they are in no list of a state, rather than in a wrong one.
  expect(await lists(license)).toEqual({ active: [held], offline: [], released: [], ended: [] });
  await note();
  expect(await lists(license)).toEqual({ active: [held], offline: [signed], released: [], ended: [gone] });
  await setEnd(server.database, signed, { signed_until: -1 });
  await note();
  expect(await lists(license)).toEqual({ active: [held], offline: [], released: [], ended: [signed, gone] });
  // Its next activation is the same machine again.
  expect(await placeMachine(server.database, license, "gone")).toBe(gone);
  expect(await lists(license)).toEqual({ active: [held, gone], offline: [], released: [], ended: [signed] });
});

test("noteEnds() skips a machine that a request holds", async () => {
  const license = await licenseWith(server.database, { maxMachines: 9, seatMinutes: 30 });
  const [busy, gone] = [
    await placeMachine(server.database, license, "busy"),
    await placeMachine(server.database, license, "gone"),
  ];
  for (const uuid of [busy, gone]) await setEnd(server.database, uuid, { active_until: -1 });
  await inTransaction(server.address, async (sql) => {
    await sql`select from machines where id = ${busy}::uuid for no key update`;
    await note();
    expect((await lists(license)).ended).toEqual([gone]);
  });
  await note();
  expect((await lists(license)).ended).toEqual([busy, gone]);
});
