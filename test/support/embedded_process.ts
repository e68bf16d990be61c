/**
 * A separate process that opens a data folder and holds it until it is told to stop. The tests
 * of the embedded PostgreSQL kill it. `bun embedded_process.ts DATA_DIR serve|command BINARIES_PARENT`
 * writes one JSON line when it is ready, or when opening was refused.
 */
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { readPostmasterFile } from "../../src/database/embedded/_postmaster_file.ts";
import { openEmbedded } from "../../src/database/embedded/mod.ts";

const [dataDir = "", holder = "", binariesParent = ""] = process.argv.slice(2);
const server = await openEmbedded({
  dataDir,
  holder: holder === "command" ? "command" : "serve",
  create: true,
  platform: bunPlatform,
  clock: systemClock,
  log: silentLog,
  fsync: false,
  binariesParent,
});
if (isRefusal(server)) {
  console.log(JSON.stringify({ refusal: server.sentence }));
} else {
  console.log(JSON.stringify({ pid: readPostmasterFile(join(dataDir, "postgres"))?.pid }));
  process.once("SIGTERM", async () => {
    await server.stop(5000);
    process.exit(0);
  });
  setInterval(() => {}, 60_000);
}
