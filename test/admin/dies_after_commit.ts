/**
 * Serves operators in a process of its own, and kills itself with SIGKILL when the statement that makes a key has
 * committed, before the answer. Its argument is the address of the database as JSON; it prints its own address.
 */

import { silentLog } from "../../src/base/log.ts";
import { openDatabase } from "../../src/database/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { createTestClock } from "../support/clock.ts";

const address = JSON.parse(process.argv[2] ?? "");
const clock = createTestClock();
const database = openDatabase(address, { clock, log: silentLog });
const admin = await startAdmin({
  clock,
  on: { address, database, close: () => database.close() },
  admin: {
    database: {
      ...database,
      async query(build, options) {
        const rows = await database.query(build, options);
        // Only the statements that issue and rotate keys return these columns and no others of a key.
        const [row = {}] = rows as object[];
        if ("licenseUuid" in row && "uuid" in row && !("hint" in row)) process.kill(process.pid, "SIGKILL");
        return rows as never[];
      },
    },
  },
});
process.stdout.write(`${admin.url}\n`);
