/** Many more of the random sequences, and longer ones. `MACHINES_SEED` sets the first seed. */
import { beforeAll, test } from "bun:test";
import { installDatabaseClock } from "../../support/database_clock.ts";
import { databaseOf, inTransaction } from "../../support/in_transaction.ts";
import { useTestDatabase } from "../../support/use.ts";
import { checkSequences } from "./places_model.ts";

// Takes over a minute.

const server = useTestDatabase();
beforeAll(async () => {
  // On a connection of its own, so that every other one has the clock of the test.
  await inTransaction(server.address, (sql) => installDatabaseClock(databaseOf(sql, server.database)));
});

const first = Number(process.env.MACHINES_SEED ?? Date.now() % 2 ** 31);
const RUNS = 10;

test("The places answer 5,000 random sequences as the reference does", async () => {
  for (let run = 0; run < RUNS; run++) {
    const seed = first + run * 1_000_003;
    await checkSequences(server.database, { seed, licenses: 500, rounds: 60 });
  }
});
