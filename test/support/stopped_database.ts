import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { openEmbedded } from "../../src/database/embedded/mod.ts";
import { type Database, openDatabase } from "../../src/database/mod.ts";
import { orThrow } from "./issue.ts";

/** Opens the database in a data folder while no service runs there. */
export async function openStopped(dataDir: string): Promise<Database & AsyncDisposable> {
  const [clock, log] = [systemClock, silentLog];
  const options = { dataDir, holder: "command", create: false, platform: bunPlatform, clock, log } as const;
  const server = orThrow(await openEmbedded(options));
  const database = openDatabase(server.address, { clock, log, deadlineMs: 10_000 });
  return {
    ...database,
    async [Symbol.asyncDispose]() {
      await database.close();
      await server.stop(5_000);
    },
  };
}
