/** The metrics of the process: version, start time, memory, CPU time and open files. */
import { readdirSync } from "node:fs";
import { VERSION } from "../../base/version.ts";
import type { Metrics } from "./exposition.ts";

/** Returns the metrics of this process as they are now. */
export function processMetrics({ isStopping }: { readonly isStopping: () => boolean }): Metrics {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  const { bun } = process.versions;
  const build = {
    version: VERSION,
    runtime: bun === undefined ? "node" : "bun",
    runtime_version: bun ?? process.versions.node,
    platform: `${process.platform}-${process.arch}`,
  };
  return {
    claviger_build_info: [
      "Always 1; the labels name the version, the runtime and the platform",
      [{ labels: build, value: 1 }],
    ],
    claviger_stopping: ["1 after the service was told to stop", Number(isStopping())],
    claviger_heap_used_bytes: ["Memory in use by the program's objects", heapUsed],
    process_resident_memory_bytes: ["Resident memory", rss],
    process_cpu_seconds_total: ["User and system CPU time spent", (user + system) / 1e6],
    process_start_time_seconds: [
      "Start time of the process, as Unix time",
      Math.round(STARTED_AT_MS) / 1_000,
    ],
    process_open_fds: ["Open file descriptors", countOpenFiles()],
  };
}

const STARTED_AT_MS = Date.now() - process.uptime() * 1_000;

/** Returns the number of open files; undefined on systems other than Linux. */
function countOpenFiles(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return undefined;
  }
}
