/** Every door shows the same states of machines, and each state as a condition finds the machines that have it in the list. */
import { afterAll, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import { MACHINE_STATES, noteEnds, releaseByOperator } from "../../src/licensing/machines/mod.ts";
import { ACTOR, NOW, orThrow } from "../support/issue.ts";
import { licenseWith, placeMachine, setEnd } from "../support/machines.ts";
import { useAdmin } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { readAll } from "./list_kit.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
const closing: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const each of closing) await each.close();
});

/** A license with two machines in each state. */
async function inEveryState() {
  const license = await licenseWith(admin.database, { maxMachines: 8, seatMinutes: 60 });
  const expected: { id: string; state: string }[] = [];
  for (const state of [...MACHINE_STATES, ...MACHINE_STATES]) {
    const uuid = await placeMachine(admin.database, license, `${state} ${expected.length}`);
    if (state === "offline") await setEnd(admin.database, uuid, { signed_until: 60 });
    if (state === "offline" || state === "released")
      orThrow(await releaseByOperator(admin.database, uuid, { actor: ACTOR, now: NOW }));
    if (state === "ended") await setEnd(admin.database, uuid, { active_until: -1 });
    expected.push({ id: toId("mch", uuid), state });
  }
  await noteEnds({ database: admin.database, isStopping: () => false });
  return { expected, id: toId("lic", license.licenseUuid) };
}

test("API, commands and console list the same states, and each condition finds what the list shows", async () => {
  const { expected, id } = await inEveryState();
  const commands = await commandsOn(admin.testDatabase, admin.clock);
  closing.push(commands);
  const { cookie } = await client.logIn("viewer");
  const toShown = (rows: readonly Record<string, unknown>[]) => rows.map(({ id, state }) => ({ id, state }));
  const inApi = async (more = "") => toShown(await readAll(admin, `/machines?license=${id}${more}`));
  expect(await inApi()).toEqual(expected);
  for (const state of MACHINE_STATES)
    expect(await inApi(`&state=${state}`)).toEqual(expected.filter((machine) => machine.state === state));

  expect(toShown(await commands.json(["machines", "list", "--license", id]))).toEqual(expected);
  const { text } = await client.send(`/machines?license=${id}`, { cookie });
  const rows = [...text.matchAll(/\/console\/machines\/(mch_\w+)".*?<span class="state [^>]*>(\w+)</g)];
  // The newest ones come first there.
  expect(rows.map(([, id, state]) => ({ id, state })).toReversed()).toEqual(expected);
});
