/**
 * Measures the memory of the service process, without its PostgreSQL, after a million requests and during the next.
 * All resident memory counts, also the executable's pages, which the system can drop and processes share.
 */
import { rateText } from "../measures.ts";
import { MOST_RESIDENT_MB, residentBytesOf, residentFileBytesOf } from "../process_times.ts";
import { toRow } from "../row.ts";
import type { RowGroup } from "../row_group.ts";
import { median } from "../statistics.ts";
import { toCount } from "../table.ts";

const KEYS = 20_000;
const SAMPLE_MS = 100;
const MEGABYTE = 1e6;

export const memory: RowGroup = {
  name: "memory",
  rows: ["memory, growth", "memory"],
  async run({ stage, cores, scale, say }) {
    const service = await stage.serve(await stage.createData(KEYS), { cores: cores.service });
    const load = stage.load(cores);
    const samples = [residentBytesOf(service.pid) / MEGABYTE];
    const timer = setInterval(() => samples.push(residentBytesOf(service.pid) / MEGABYTE), SAMPLE_MS);
    try {
      const result = await load.run(service, {
        request: "validate",
        keys: KEYS,
        warmUpMs: 0,
        span: { kind: "count", requests: scale.manyRequests },
      });
      const fileMegabytes = residentFileBytesOf(service.pid) / MEGABYTE;
      const quarter = Math.floor(samples.length / 4);
      const third = samples.slice(2 * quarter, 3 * quarter);
      const last = samples.slice(3 * quarter);
      const half = [...third, ...last];
      say(
        `  ${rateText([result])}; ${samples[0]?.toFixed(0)} MB at first, ${median(last).toFixed(0)} MB at last`,
      );
      const how = `${toCount(scale.manyRequests)} validates over ${toCount(KEYS)} keys, at ${rateText([result])}`;
      return [
        toRow({
          name: "memory, growth",
          unit: "×",
          better: "less",
          rounds: [median(last) / median(third)],
          target: { bound: "at most", value: 1.05 },
          note: `last quarter of ${how}, against the third: medians ${median(last).toFixed(1)} and ${median(third).toFixed(1)} MB`,
          details: { "third quarter MB": median(third), "last quarter MB": median(last) },
        }),
        toRow({
          name: "memory",
          unit: "MB",
          better: "less",
          rounds: [Math.max(...half)],
          target: { bound: "at most", value: MOST_RESIDENT_MB },
          note: `the most that was resident in the last half of ${how}; ${samples[0]?.toFixed(1)} MB before the first; ${fileMegabytes.toFixed(1)} MB of it are pages of the executable`,
          details: {
            "at first MB": samples[0] ?? Number.NaN,
            "of files MB": fileMegabytes,
            samples: samples.length,
          },
        }),
      ];
    } finally {
      clearInterval(timer);
      await service.stop();
    }
  },
};
