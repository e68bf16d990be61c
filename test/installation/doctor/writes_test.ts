/** The finding of `doctor` about a database that answers but refuses writes. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { openDatabase } from "../../../src/database/mod.ts";
import { type Check, type DatabaseContext, examineDatabase } from "../../../src/installation/doctor/mod.ts";
import { configOf } from "../../support/config.ts";
import { TEST_SECRET } from "../../support/secrets.ts";
import { useTestDatabase } from "../../support/use.ts";

const opened = useTestDatabase();

/** Throws the error of a server whose disk has no space even for a connection. */
const FULL_DISK: Check<DatabaseContext> = {
  name: "another",
  async examine({ database }) {
    const text = "do $$ begin raise 'could not extend file' using errcode = 'disk_full'; end $$";
    await database.query((sql) => sql.unsafe(text));
    throw new Error("The database accepted it");
  },
};

test("doctor fails if the database refuses writes, and says why", async () => {
  const config = configOf({ CLAVIGER_SECRET: TEST_SECRET });
  const look = async (more?: Check<DatabaseContext>) => {
    // A new connection: settings of the database apply only to new connections.
    const database = openDatabase(opened.address, { clock: systemClock, log: silentLog, maxConnections: 1 });
    const context = { config, clock: systemClock, address: opened.address, database, place: "a test" };
    const findings = await examineDatabase(context, more && [more]);
    await database.close();
    return findings.find(({ name }) => name === (more?.name ?? "writes"));
  };
  const set = async (setting: string) => {
    const [row] = await opened.database.query<{ name: string }>(
      (sql) => sql`select current_database() as name`,
    );
    await opened.database.query((sql) => sql.unsafe(`alter database ${row?.name} set ${setting}`));
  };
  expect(await look()).toMatchObject({ state: "ok" });
  // Within each limit; work_mem has 4 MB, so the second trial needs a temporary file.
  for (const limit of ["0", "6MB"]) {
    await set(`temp_file_limit = '${limit}'`);
    expect(await look()).toMatchObject({ state: "ok" });
  }
  await set("temp_file_limit = -1");
  expect(await look(FULL_DISK)).toMatchObject({
    state: "fail",
    message: "cannot be checked: could not extend file",
    remedy: "free some space on the server's disk",
  });
  await set("default_transaction_read_only = on");
  expect(await look()).toMatchObject({ state: "fail", message: "the database is read-only" });
});
