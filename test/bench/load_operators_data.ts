/**
 * Fills a data folder with `operators_data.sql`, and ends: `bun test/bench/load_operators_data.ts DATA_DIR KEYS`.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { openEmbedded } from "../../src/database/embedded/mod.ts";
import { migrate, migrations, openDatabase, openSession } from "../../src/database/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { countUse } from "../../src/usage/mod.ts";

const [dataDir = "", keys = ""] = process.argv.slice(2);
const server = await openEmbedded({
  dataDir,
  holder: "command",
  create: true,
  platform: bunPlatform,
  clock: systemClock,
  log: silentLog,
  fsync: false,
});
if (isRefusal(server)) throw new Error(server.sentence);
const migrated = await migrate(server.address, migrations);
if (isRefusal(migrated)) throw new Error(migrated.sentence);
const session = openSession(server.address, { statementTimeoutMs: 600_000 });
await session.sql`select set_config('bench.keys', ${keys}, false)`;
await session.sql.unsafe(readFileSync(join(import.meta.dir, "operators_data.sql"), "utf8"));
// As a service does after an upgrade.
const database = openDatabase(server.address, {
  clock: systemClock,
  log: silentLog,
  maxConnections: 1,
  deadlineMs: 120_000,
});
await session.sql.unsafe("vacuum (analyze)");
await countUse(database, { clock: systemClock, isStopping: () => false });
await computeFigures(database, { clock: systemClock });
await database.close();
// As autovacuum does on a server that runs for longer.
await session.sql.unsafe("vacuum (freeze, analyze)");
await session.close();
await server.stop(60_000);
process.exit(0);
