/**
 * Steps of clocks. The rule holds by the clock of the database: that of a service's host decides nothing, and after a step
 * of the database's clock a seat that ended and was given away never counts again.
 */
import { beforeAll, expect, test } from "bun:test";
import { createTestClock } from "../../support/clock.ts";
import { createTestDatabase } from "../../support/database.ts";
import { installDatabaseClock, setDatabaseClock } from "../../support/database_clock.ts";
import { databaseOf, inTransaction } from "../../support/in_transaction.ts";
import { setPlaces } from "../../support/machines.ts";
import { ON_NODE, startTestService, type TestService } from "../../support/service.ts";
import { useForAll } from "../../support/use.ts";

const BEGIN = "2027-01-01T00:00:00Z";
const BEGIN_MS = Date.parse(BEGIN);
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const server = useForAll(createTestDatabase);
const service = useForAll(async () => {
  await inTransaction(server.address, (sql) => installDatabaseClock(databaseOf(sql, server.database)));
  return await startTestService({ on: server, clock: createTestClock(BEGIN) });
});
beforeAll(() => setClock(0));

const setClock = (afterMs: number) => setDatabaseClock(server.database, BEGIN_MS + afterMs, { speed: 0 });

async function issueSeats(maxMachines: number, at: TestService = service) {
  const { apiKey, licenseUuid } = await at.issue({ expiresAt: new Date("2099-01-01T00:00:00Z") });
  await setPlaces(at.database, licenseUuid, { maxMachines, seatMinutes: 5 });
  return async (action: "activate" | "heartbeat" | "release", fingerprint: string) => {
    const { status, body } = await at.post(`/v1/machines/${action}`, { api_key: apiKey, fingerprint });
    return { status, used: body.machines?.used, endsMs: Date.parse(body.expires_at) - BEGIN_MS };
  };
}

test.skipIf(ON_NODE)(
  "a step of the host's clock, ahead or back, neither ends a seat nor gives its place away",
  async () => {
    await setClock(0);
    const ask = await issueSeats(1);
    expect(await ask("activate", "machine-one")).toMatchObject({ status: 200, endsMs: 5 * MINUTE_MS });
    for (const stepMs of [6 * MINUTE_MS, 24 * HOUR_MS, -24 * HOUR_MS, -400 * 24 * HOUR_MS]) {
      service.clock.setWall(new Date(BEGIN_MS + stepMs).toISOString());
      expect(await ask("activate", "machine-two")).toMatchObject({ status: 409, used: 1 });
      expect(await ask("heartbeat", "machine-one")).toMatchObject({ status: 200, endsMs: 5 * MINUTE_MS });
    }
    service.clock.setWall(BEGIN);
    await setClock(5 * MINUTE_MS);
    // Not the second one, which is refused from memory as long as the seat lasts.
    expect(await ask("activate", "machine-three")).toMatchObject({
      status: 200,
      used: 1,
      endsMs: 10 * MINUTE_MS,
    });
  },
);

test("a step of the database's clock ahead ends seats by that clock, and the step back revives none that was given away", async () => {
  await setClock(0);
  const ask = await issueSeats(2);
  await ask("activate", "machine-one");
  await ask("activate", "machine-two");
  await setClock(6 * MINUTE_MS);
  expect(await ask("activate", "machine-three")).toMatchObject({ status: 200, used: 1 });
  await setClock(0);
  // By this clock the seats of the first two would last for five minutes more, but they have ended.
  for (const machine of ["machine-one", "machine-two"])
    expect((await ask("heartbeat", machine)).status).toBe(404);
  expect(await ask("activate", "machine-one")).toMatchObject({ status: 200, used: 2 });
  expect(await ask("activate", "machine-two")).toMatchObject({ status: 409, used: 2 });
  expect((await ask("heartbeat", "machine-three")).status).toBe(200);
});

test("a step of the database's clock back lets a seat that nobody asked for last on, and gives no other its place", async () => {
  await setClock(0);
  const ask = await issueSeats(1);
  await ask("activate", "machine-one");
  await setClock(6 * MINUTE_MS);
  expect((await ask("heartbeat", "machine-one")).status).toBe(404);
  await setClock(MINUTE_MS);
  expect(await ask("activate", "machine-two")).toMatchObject({ status: 409, used: 1 });
  expect(await ask("heartbeat", "machine-one")).toMatchObject({ status: 200, endsMs: 6 * MINUTE_MS });
  await setClock(-HOUR_MS);
  expect(await ask("activate", "machine-two")).toMatchObject({ status: 409, used: 1 });
  // A heartbeat after the step ends the seat five minutes later by the clock of now.
  expect((await ask("heartbeat", "machine-one")).endsMs).toBe(-HOUR_MS + 5 * MINUTE_MS);
});
