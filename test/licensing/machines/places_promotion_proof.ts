/**
 * 200 clients for 30 floating places through two services, while their PostgreSQL is killed and its synchronous standby takes
 * over. A place that was confirmed is on the standby, too. So never more than 30 machines hold a place, also by releases by id,
 * borrowed licenses and freed places, and no machine is refused while a place is free. Unlike `places_failover_proof.ts` it needs
 * nothing that is not here anyhow. `PLACES_SECONDS=600 make prove ARGS=test/licensing/machines/places_promotion_proof.ts` goes on for
 * ten minutes.
 */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { openDatabase, toDatabaseAddress } from "../../../src/database/mod.ts";
import { installDatabaseClock } from "../../support/database_clock.ts";
import { createRandom } from "../../support/random.ts";
import { startReplication } from "../../support/replication.ts";
import { startTestService, type TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { preparePlaces, startPlaces } from "./places_run.ts";

const SECONDS = Number(process.env.PLACES_SECONDS ?? 20);
const random = createRandom(Date.now());

test("Never more than 30 of 200 clients hold a place through a failover to the synchronous standby, and none is refused while one is free", async () => {
  await using ends = new AsyncDisposableStack();
  const replication = await startReplication();
  ends.defer(() => replication.close());
  const { primary, standby } = replication;
  const hosts = [primary, standby].map(({ url }) => new URL(url).host);
  const address = toDatabaseAddress(`postgres://claviger@${hosts.join(",")}/postgres`);
  const open = () => openDatabase(address, { clock: systemClock, log: silentLog, maxConnections: 2 });
  const on = { address, database: open(), close: async () => {} };
  const services: TestService[] = [];
  for (const _ of [1, 2]) {
    const service = await startTestService({ on });
    services.push(service);
    ends.defer(() => service.close());
  }
  await installDatabaseClock(on.database);
  await preparePlaces(on.database);
  await on.database.close();
  // Their new connections read the clock of the test.
  for (const { service } of services) service.database.renew();
  await primary.run("alter system set synchronous_standby_names = '*'");
  await primary.run("select pg_reload_conf()");
  const inStep = "select 1 / (count(*) = 1)::integer from pg_stat_replication where sync_state = 'sync'";
  await until(() => primary.run(inStep).then(Boolean, () => false));

  const database = ends.use(open());
  const post = async (path: string, body: object) =>
    await services[random.between(0, 1)]?.post(path, body).catch(() => undefined);
  const places = await startPlaces({ database, post }, random);
  await Bun.sleep((SECONDS * 1_000) / 2);
  primary.kill();
  await Bun.sleep(random.between(0, 2_000));
  await standby.run("select pg_promote()");
  await Bun.sleep((SECONDS * 1_000) / 2);
  const figures = await places.stop();
  console.log(`Places through a failover: ${JSON.stringify(figures)}`);
  expect(figures.cut).toBeGreaterThan(0);
});
