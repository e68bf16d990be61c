/**
 * 200 clients for 30 floating places, through three processes on one PostgreSQL, while processes are killed and started
 * again, and PostgreSQL restarts and crashes. By the clock of the database never more than 30 machines hold a place, and
 * no machine is refused while a place is free. `PLACES_SECONDS=600 make prove ARGS=test/licensing/machines/places_proof.ts` goes on
 * for ten minutes.
 */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { openDatabase } from "../../../src/database/mod.ts";
import { createInstallation, type Replica } from "../../several_processes/installation.ts";
import { installDatabaseClock } from "../../support/database_clock.ts";
import { createRandom } from "../../support/random.ts";
import { useForAll } from "../../support/use.ts";
import { preparePlaces, startPlaces } from "./places_run.ts";

const SECONDS = Number(process.env.PLACES_SECONDS ?? 30);

const installation = useForAll(createInstallation);
const random = createRandom(Date.now());

test(`Never more than 30 of 200 clients hold a place in ${SECONDS} s of kills and restarts, and none is refused while one is free`, async () => {
  await installDatabaseClock(installation.database);
  await preparePlaces(installation.database);
  const replicas: Replica[] = [];
  for (let i = 0; i < 3; i++) replicas.push(await installation.serve());
  await using database = openDatabase(installation.address, { clock: systemClock, log: silentLog });
  const places = await startPlaces(
    {
      database,
      post: async (path, body) =>
        await replicas[random.between(0, 2)]?.post(path, body).catch(() => undefined),
    },
    random,
  );
  const happened: Record<string, number> = {};
  const untilMs = Date.now() + SECONDS * 1_000;
  for (let round = 1; Date.now() < untilMs; round++) {
    await Bun.sleep(random.between(1_000, 4_000));
    const index = random.between(0, 2);
    const isOfDatabase = round % 4 === 0;
    const signal = isOfDatabase ? (["SIGQUIT", "SIGINT"] as const)[(round / 4) % 2] : undefined;
    if (signal !== undefined) await installation.restart(signal);
    else {
      await replicas[index]?.kill(round % 4 === 1 ? "SIGTERM" : "SIGKILL");
      replicas[index] = await installation.serve();
    }
    const what = signal ?? "service";
    happened[what] = (happened[what] ?? 0) + 1;
  }
  const figures = await places.stop();
  console.log(`Places: ${JSON.stringify({ ...figures, ...happened })}`);
  expect(figures.cut).toBeGreaterThan(0);
});
