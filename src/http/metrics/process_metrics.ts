/** The metrics of the process: version, start time, memory, CPU time and open files. */
import { readdirSync } from "node:fs";
import { VERSION } from "../../version.ts";
import { type Family, several, single } from "./exposition.ts";

/** Returns the metrics of this process as they are now. */
export function processMetrics({ isStopping }: { readonly isStopping: () => boolean }): Family[] {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  const { bun } = process.versions;
  return [
    several("gauge", "claviger_build_info", {
      help: "Always 1; the labels name the version, the runtime and the platform",
      samples: [
        {
          labels: {
            version: VERSION,
            runtime: bun === undefined ? "node" : "bun",
            runtime_version: bun ?? process.versions.node,
            platform: `${process.platform}-${process.arch}`,
          },
          value: 1,
        },
      ],
    }),
    single("gauge", "claviger_stopping", {
      help: "1 after the service was told to stop",
      value: Number(isStopping()),
    }),
    single("gauge", "claviger_heap_used_bytes", {
      help: "Memory in use by the program's objects",
      value: heapUsed,
    }),
    single("gauge", "process_resident_memory_bytes", { help: "Resident memory", value: rss }),
    single("counter", "process_cpu_seconds_total", {
      help: "User and system CPU time spent",
      value: (user + system) / 1e6,
    }),
    single("gauge", "process_start_time_seconds", {
      help: "Start time of the process, as Unix time",
      value: Math.round(STARTED_AT_MS) / 1_000,
    }),
    ...ofOpenFiles(),
  ];
}

const STARTED_AT_MS = Date.now() - process.uptime() * 1_000;

/** Returns the number of open files; nothing on systems other than Linux. */
function ofOpenFiles(): Family[] {
  try {
    const value = readdirSync("/proc/self/fd").length;
    return [single("gauge", "process_open_fds", { help: "Open file descriptors", value })];
  } catch {
    return [];
  }
}
