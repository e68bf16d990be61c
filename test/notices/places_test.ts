/** Notices of licenses whose places for machines have all been taken for an hour. */
import { expect, test } from "bun:test";
import { createMachineNames, releaseMachine } from "../../src/licensing/machines/mod.ts";
import { describeNotice } from "../../src/notices/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { licenseWith, placeMachine, type TestLicense } from "../support/machines.ts";
import { openSecrets } from "../support/secrets.ts";
import { useForEach } from "../support/use.ts";
import { makeAt, notices, shown } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);
const NOW = new Date();
const make = () => makeAt(server.database, new Date());
const states = () => shown(server.database, NOW);

/** Lets so many minutes pass since the last place of every license was taken. */
const pass = (minutes: number) =>
  server.database.query(
    (sql) => sql`update full_places set since = since - ${minutes}::integer * interval '1 minute'`,
  );
const fill = async (license: TestLicense, ...names: string[]) => {
  for (const name of names) await placeMachine(server.database, license, name);
};

const nameMachine = createMachineNames(openSecrets());
const release = ({ licenseUuid }: TestLicense, name: string) =>
  releaseMachine(server.database, nameMachine(licenseUuid, `machine-${name}`));

test("A license has a notice an hour after its last place was taken, until a place is free", async () => {
  const license = await licenseWith(server.database, { maxMachines: 2 });
  await fill(license, "one");
  await pass(61);
  await make();
  expect(await states()).toEqual([]);
  await fill(license, "two");
  await pass(59);
  await make();
  expect(await states()).toEqual([]);
  // A machine that has its place already takes none.
  await fill(license, "one");
  await pass(2);
  await make();
  const [notice] = await notices(server.database, NOW);
  expect(notice && describeNotice(notice)).toMatch(
    /^All 2 places for machines of the license of .* have been taken since \d{4}-/,
  );
  expect(Date.now() - Number(notice?.trueSince)).toBeWithin(60 * 60_000, 62 * 60_000);
  await release(license, "one");
  await make();
  expect(await states()).toEqual(["places_full 0 withdrawn"]);
});

test("A place that was free in between begins another hour", async () => {
  const license = await licenseWith(server.database, { maxMachines: 2 });
  await fill(license, "one", "two");
  await pass(50);
  await release(license, "one");
  await fill(license, "three");
  await pass(20);
  await make();
  expect(await states()).toEqual([]);
  await pass(41);
  await make();
  expect(await states()).toEqual(["places_full 0 open"]);
  await release(license, "two");
  await fill(license, "one");
  await make();
  expect(await states()).toEqual(["places_full 0 withdrawn"]);
  await pass(90);
  await make();
  expect(await states()).toEqual(["places_full 0 withdrawn", "places_full 0 open"]);
});

test("With another limit the hour begins when the next machine is refused or takes the last place", async () => {
  const license = await licenseWith(server.database, { maxMachines: 3 });
  await fill(license, "one", "two", "three");
  await pass(61);
  await license.change({ maxMachines: 2 });
  await make();
  expect(await states()).toEqual([]);
  await placeMachine(server.database, license, "four").catch(() => {});
  await pass(61);
  await make();
  expect(await states()).toEqual(["places_full 0 open"]);
  await license.change({ maxMachines: null });
  await make();
  expect(await states()).toEqual(["places_full 0 withdrawn"]);
});

test("A license with one place has a notice only after a further machine was refused", async () => {
  const license = await licenseWith(server.database, { maxMachines: 1 });
  await fill(license, "one");
  await pass(90);
  await make();
  expect(await states()).toEqual([]);
  await fill(license, "two").catch(() => {});
  await make();
  const [notice] = await notices(server.database, NOW);
  expect(notice && describeNotice(notice)).toMatch(
    /^The only place for machines of the license of .* has been taken since .*: a further machine was refused at \d{4}-/,
  );
  // The machine that takes the place next begins anew.
  await release(license, "one");
  await fill(license, "two");
  // Another second than before: that is the occasion.
  await pass(91);
  await make();
  expect(await states()).toEqual(["places_full 0 withdrawn"]);
});
