/**
 * 200 clients for 30 floating places, through three services behind HAProxy on two PostgreSQL under Patroni, as the guide
 * configures them, while another PostgreSQL becomes the primary again and again. A place that was confirmed survives
 * each failover: so never more than 30 machines hold a place, and no machine is refused while a place is free.
 * `PLACES_SECONDS=600 make prove ARGS=test/licensing/machines/places_failover_proof.ts` goes on for ten minutes.
 */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { openDatabase, toDatabaseAddress } from "../../../src/database/mod.ts";
import { type Hosts, missingForHosts, startHosts } from "../../several_hosts/hosts.ts";
import { installDatabaseClock } from "../../support/database_clock.ts";
import { createRandom } from "../../support/random.ts";
import { useFolder } from "../../support/use_folder.ts";
import { type PlacesAnswer, preparePlaces, startPlaces } from "./places_run.ts";

/** Each kind of fault happens once at least, also when this is over sooner. */
const SECONDS = Number(process.env.PLACES_SECONDS ?? 0);
const missing = missingForHosts();
if (missing !== undefined)
  console.warn(`No ${missing} on this machine: places are not tried through failovers`);

const folder = useFolder();
const random = createRandom(Date.now());

function faultsOf(hosts: Hosts): Readonly<Record<string, () => Promise<void>>> {
  const { cluster } = hosts;
  return {
    "switch over": () => cluster.switchover(),
    "kill the primary": () => cluster.killPostgres("primary"),
    "kill the standby": () => cluster.killPostgres("standby"),
    "kill Patroni of the primary": () => cluster.killKeeper("primary"),
    "kill a service": () => hosts.restartService(random.between(0, 2), "SIGKILL"),
    "kill HAProxy": () => hosts.killBalancer(),
  };
}

/** Sends a request. HAProxy's own answers are no JSON. */
async function post(hosts: Hosts, path: string, body: object): Promise<PlacesAnswer | undefined> {
  const answer = await hosts.post(path, body).catch(() => undefined);
  if (answer === undefined) return undefined;
  return {
    status: answer.status,
    body: (await answer.json().catch(() => undefined)) as PlacesAnswer["body"],
  };
}

test.skipIf(missing !== undefined)(
  "Never more than 30 of 200 clients hold a place through failovers to the standby, and none is refused while one is free",
  async () => {
    await using ends = new AsyncDisposableStack();
    const hosts = await startHosts(folder);
    ends.defer(() => hosts.close());
    const address = toDatabaseAddress(hosts.cluster.url);
    const open = () => openDatabase(address, { clock: systemClock, log: silentLog, maxConnections: 2 });
    {
      await using database = open();
      await installDatabaseClock(database);
      await preparePlaces(database);
    }
    const database = ends.use(open());
    // Their new connections read the clock of the test.
    for (const index of [0, 1, 2]) await hosts.restartService(index, "SIGTERM");
    await hosts.untilWhole();
    const places = await startPlaces({ database, post: (path, body) => post(hosts, path, body) }, random);
    const happened: Record<string, number> = {};
    let failovers = 0;
    const untilMs = Date.now() + SECONDS * 1_000;
    do {
      for (const [name, happen] of random.shuffle(Object.entries(faultsOf(hosts)))) {
        await Bun.sleep(random.between(3_000, 8_000));
        const before = await hosts.cluster.primary();
        await happen();
        happened[name] = (happened[name] ?? 0) + 1;
        await hosts.untilWhole();
        if ((await hosts.cluster.primary()) !== before) failovers++;
      }
    } while (Date.now() < untilMs);
    const figures = await places.stop();
    console.log(`Places on three hosts: ${JSON.stringify({ ...figures, failovers, happened })}`);
    expect(failovers).toBeGreaterThan(1);
    expect(figures.cut).toBeGreaterThan(0);
  },
);
