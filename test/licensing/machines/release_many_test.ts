/** Many machines are released one by one: what is said before, what is changed, and what is refused. */
import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../../src/base/calendar.ts";
import { newUuid, toId } from "../../../src/base/ids.ts";
import { type Database, DatabaseUnavailable, openSession } from "../../../src/database/mod.ts";
import {
  countReleases,
  describeForeseen,
  describeReleases,
  findActive,
  foreseeReleases,
  MOST_RELEASED,
  releaseMachines,
} from "../../../src/licensing/machines/mod.ts";
import { stopWaiting } from "../../admin/stop_waiting.ts";
import { createTestClock } from "../../support/clock.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { ACTOR, NOW, sentenceOf } from "../../support/issue.ts";
import { licenseWith, placeMachine, setEnd, setSeen } from "../../support/machines.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();
const clock = createTestClock();
const BY = { actor: { ...ACTOR, reason: "not seen for a month" }, now: NOW, clock };

/** A license with active machines, of which the first ones were last seen 40 days ago. */
async function withMachines({ count = 3, unseen = 2 } = {}) {
  const license = await licenseWith(server.database, { maxMachines: count });
  const uuids: string[] = [];
  for (let n = 0; n < count; n++) uuids.push(await placeMachine(server.database, license, `${n}`));
  await setSeen(server.database, uuids.slice(0, unseen), 40);
  return { ...license, uuids };
}

const idsOf = (uuids: readonly string[]) => uuids.map((uuid) => toId("mch", uuid));

async function findReleases(licenseUuid: string) {
  return await server.database.query(
    (sql) => sql`
      select after ->> 'machine' as id, reason from audit
       where action = 'machine.release' and license_id = ${licenseUuid}::uuid order by id`,
  );
}

describe("findActive()", () => {
  test("finds the active machines that were not seen for so long, and no other", async () => {
    const { licenseUuid, uuids } = await withMachines();
    const released = uuids.slice(1, 2);
    await releaseMachines(server.database, released, BY);
    const find = async (days: number) =>
      (await findActive(server.database, { licenseUuid, unseenMs: days * DAY_MS })).machines.map(
        ({ id }) => id,
      );
    expect(await find(30)).toEqual(idsOf(uuids.slice(0, 1)));
    expect(await find(41)).toEqual([]);
    expect(await find(0)).toEqual(idsOf([uuids[0] ?? "", uuids[2] ?? ""]));
  });

  test("finds none in another state", async () => {
    const { licenseUuid } = await withMachines();
    for (const state of ["offline", "released", "ended"] as const)
      expect(await findActive(server.database, { licenseUuid, state })).toEqual({
        machines: [],
        hasMore: false,
      });
  });

  test("finds at most so many, and tells whether there are more", async () => {
    const { licenseUuid, uuids } = await withMachines();
    const two = await findActive(server.database, { licenseUuid, limit: 2 });
    expect([two.machines.map(({ id }) => id), two.hasMore]).toEqual([idsOf(uuids.slice(0, 2)), true]);
    expect(await findActive(server.database, { licenseUuid, limit: 3 })).toMatchObject({ hasMore: false });
    expect(MOST_RELEASED).toBe(500);
  });
});

describe("foreseeReleases()", () => {
  test("counts machines, licenses, places that become free, and places that stay taken", async () => {
    const [one, other] = [await withMachines(), await withMachines({ count: 1 })];
    const end = Date.now() + 90 * 60_000;
    await setEnd(server.database, one.uuids[0] ?? "", { signed_until: 60 });
    await setEnd(server.database, other.uuids[0] ?? "", { signed_until: 90 });
    const uuids = [...one.uuids, ...other.uuids];
    const { machines } = await findActive(server.database, { uuids });

    const foreseen = foreseeReleases(machines);

    expect(foreseen).toMatchObject({ machines: 4, licenses: 2, free: 2, taken: 2 });
    expect(Math.abs((foreseen.takenUntil?.getTime() ?? 0) - end)).toBeLessThan(60_000);
    expect(describeForeseen(foreseen)).toMatch(
      /^4 active machines of 2 licenses: 2 places become free at once, and 2 places stay taken by a signed license, until \d{4}-\S+Z at most$/,
    );
    const counts = countReleases(await releaseMachines(server.database, uuids, BY));
    expect(counts).toEqual({
      ...{ released: 4, free: 2, taken: 2, takenUntil: foreseen.takenUntil },
      ...{ unchanged: 0, refused: 0 },
    });
    expect(describeReleases(counts)).toStartWith(
      "Released 4 machines: 2 places are free, and 2 places stay taken",
    );
  });

  test("says that no place stays taken", async () => {
    const { licenseUuid } = await withMachines({ count: 1 });
    const { machines } = await findActive(server.database, { licenseUuid });
    expect(describeForeseen(foreseeReleases(machines))).toBe(
      "1 active machine of 1 license: 1 place becomes free at once, and none stays taken by a signed license",
    );
  });
});

describe("releaseMachines()", () => {
  test("releases each machine once, with a row of the audit log and the reason", async () => {
    const license = await withMachines();
    const uuids = license.uuids.slice(0, 2);
    const releases = await releaseMachines(server.database, [...uuids, ...uuids], BY);
    expect(releases.map(({ id, result }) => ({ id, result }))).toEqual(
      idsOf(uuids).map((id) => ({
        id,
        result: { id, state: "released", takenUntil: null, isChanged: true },
      })),
    );
    expect(await findReleases(license.licenseUuid)).toEqual(
      idsOf(uuids).map((id) => ({ id, reason: "not seen for a month" })),
    );
    const { machines } = await findActive(server.database, { licenseUuid: license.licenseUuid });
    expect(machines.map(({ id }) => id)).toEqual(idsOf(license.uuids.slice(2)));
  });

  test("refuses an unknown, a foreign and a released machine alone", async () => {
    const { licenseUuid, uuids } = await withMachines();
    const [first = "", second = "", third = ""] = uuids;
    await releaseMachines(server.database, [first], BY);
    await setEnd(server.database, second, { signed_until: 60 });
    await releaseMachines(server.database, [second], BY);
    const unknown = newUuid();
    const releases = await releaseMachines(server.database, [unknown, first, second, third], BY);
    expect(releases.map(({ result }) => result)).toMatchObject([
      { code: "NOT_FOUND" },
      { code: "CONFLICT" },
      { state: "offline", isChanged: false },
      { state: "released", isChanged: true },
    ]);
    expect(describeReleases(countReleases(releases))).toBe(
      "Released 1 machine: 1 place is free, and none stays taken by a signed license; not active any more: 1 machine; " +
        "not released: 2 machines",
    );
    expect(await findReleases(licenseUuid)).toHaveLength(3);
    const restricted = { ...BY, restriction: { tiers: ["free"] } } as const;
    const foreign = await withMachines();
    const [refused] = await releaseMachines(server.database, foreign.uuids.slice(0, 1), restricted);
    expect(refused?.result).toMatchObject({ code: "NOT_FOUND" });
    expect(await findReleases(foreign.licenseUuid)).toEqual([]);
  });

  test("refuses a machine alone whose license another statement holds", async () => {
    const [held, free] = [await withMachines({ count: 1 }), await withMachines({ count: 1 })];
    const session = openSession(server.address, { statementTimeoutMs: 30_000 });
    await session.connect();
    await session.sql`begin`;
    await session.sql`select from licenses where id = ${held.licenseUuid}::uuid for update`;
    const running = releaseMachines(server.database, [...held.uuids, ...free.uuids], BY);
    await until(async () => (await countWaiting(server.database)) > 0);
    await stopWaiting(session);
    const [first, second] = await running;
    await session.close();
    expect(sentenceOf(first?.result)).toContain("nothing was changed; try again");
    expect(second?.result).toMatchObject({ isChanged: true });
    expect(await findReleases(held.licenseUuid)).toEqual([]);
  });

  test("begins no release after its time", async () => {
    const { uuids } = await withMachines();
    const late = createTestClock();
    const slow: Database = {
      ...server.database,
      query: (statement) => {
        late.advance(700);
        return server.database.query(statement);
      },
    };
    const releases = await releaseMachines(slow, uuids, { ...BY, clock: late, mostMs: 1_000 });
    expect(releases.map(({ result }) => Object(result).isChanged ?? Object(result).code)).toEqual([
      true,
      true,
      "SERVICE_UNAVAILABLE",
    ]);
  });

  test("tells what was released before the database was lost, and throws if nothing was", async () => {
    const { uuids } = await withMachines({ count: 4 });
    let left = 2;
    const lost: Database = {
      ...server.database,
      query: (statement) =>
        left-- > 0
          ? server.database.query(statement)
          : Promise.reject(new DatabaseUnavailable("ECONNREFUSED")),
    };
    const releases = await releaseMachines(lost, uuids, BY);
    expect(releases.map(({ result }) => Object(result).isChanged ?? sentenceOf(result))).toEqual([
      true,
      true,
      expect.stringContaining("may be released or not"),
      expect.stringContaining("nothing was changed"),
    ]);
    expect(left).toBe(-1);
    await expect(releaseMachines(lost, uuids, BY)).rejects.toThrow("The database does not answer");
  });
});
