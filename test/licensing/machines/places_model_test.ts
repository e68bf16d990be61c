/** A short run of the random sequences; `places_model_proof.ts` has many more. `MACHINES_SEED` sets the seed. */
import { beforeAll, test } from "bun:test";
import { installDatabaseClock } from "../../support/database_clock.ts";
import { databaseOf, inTransaction } from "../../support/in_transaction.ts";
import { useTestDatabase } from "../../support/use.ts";
import { checkSequences } from "./places_model.ts";

const server = useTestDatabase();
beforeAll(async () => {
  // On a connection of its own, so that every other one has the clock of the test.
  await inTransaction(server.address, (sql) => installDatabaseClock(databaseOf(sql, server.database)));
});

test("The places answer 200 random sequences as the reference does", async () => {
  const seed = Number(process.env.MACHINES_SEED ?? Date.now() % 2 ** 31);
  await checkSequences(server.database, { seed, licenses: 200, rounds: 20 });
});
