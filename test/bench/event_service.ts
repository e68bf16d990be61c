/**
 * Runs the service from source, in one of two forms that differ in one thing. The product's form gathers events into
 * group commits; `--plain` stores each event with its own statement, as many at a time as the service has
 * connections. `bun test/bench/event_service.ts DATA_DIR [--plain]`; settings by the environment.
 */
import { systemClock } from "../../src/base/clock.ts";
import { createLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { readConfig } from "../../src/installation/config/config.ts";
import { startService } from "../../src/service/mod.ts";

/** `openDatabase` opens at most this number of connections. */
const CONNECTIONS = 8;

const [dataDir = "", form] = process.argv.slice(2);
const config = readConfig({
  env: { ...process.env, CLAVIGER_DATA_DIR: dataDir, CLAVIGER_PORT: "0" },
  envFile: "/dev/null",
  workingFolder: process.cwd(),
  isRoot: process.getuid?.() === 0,
});
if (isRefusal(config)) throw new Error(config.sentence);
const log = createLog({
  format: config.logFormat,
  clock: systemClock,
  write: (line) => void process.stderr.write(line),
});
const service = await startService({
  config,
  platform: bunPlatform,
  clock: systemClock,
  log,
  ...(form === "--plain" && {
    eventGathering: { maxEventsPerCommit: 1, commitsInFlight: CONNECTIONS },
  }),
});
if (isRefusal(service)) throw new Error(service.sentence);
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.on(signal, () => void service.stop(9_000).then(() => process.exit(0)));
}
console.log(`Claviger serves at ${service.url}`);
if (service.metrics) {
  console.log(`Its metrics are at http://${service.metrics.host}:${service.metrics.port}/metrics`);
}
