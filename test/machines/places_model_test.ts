/** A short run of the random sequences; `places_model_proof.ts` has many more. `MACHINES_SEED` sets the seed. */
import { beforeAll, test } from "bun:test";
import { type DatabaseClock, installDatabaseClock } from "../support/database_clock.ts";
import { useTestDatabase } from "../support/use.ts";
import { checkSequences } from "./places_model.ts";

const server = useTestDatabase();
let databaseClock: DatabaseClock;
beforeAll(async () => {
  databaseClock = await installDatabaseClock(server.address, server.database);
});

test("The places answer 200 random sequences as the reference does", async () => {
  const seed = Number(process.env.MACHINES_SEED ?? Date.now() % 2 ** 31);
  await checkSequences(server.database, databaseClock, { seed, licenses: 200, rounds: 20 });
});
