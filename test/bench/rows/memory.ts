/**
 * Measures the memory of the service process, without its PostgreSQL, after a million requests and during the next.
 * All resident memory counts, also the executable's pages, which the system can drop and processes share.
 */
import { rateText } from "../measures.ts";
import { MOST_RESIDENT_MB, residentBytesOf, residentFileBytesOf } from "../process_times.ts";
import { toRow } from "../row.ts";
import type { Bench, RowGroup } from "../row_group.ts";
import { median } from "../statistics.ts";
import { toCount } from "../table.ts";

const KEYS = 20_000;
/** As many as the service keeps in memory by default. */
const MOST_KEYS = 50_000;
const SAMPLE_MS = 100;
const MEGABYTE = 1e6;

export const memory: RowGroup = {
  name: "memory",
  rows: ["memory, growth", "memory", "memory, a thousand keys"],
  async run(bench) {
    const usual = await measure(bench, KEYS);
    const full = await measure(bench, MOST_KEYS);
    const eachThousand = ((full.most - usual.most) / (MOST_KEYS - KEYS)) * 1_000;
    return [
      toRow({
        name: "memory, growth",
        unit: "×",
        better: "less",
        rounds: [usual.last / usual.third],
        target: { bound: "at most", value: 1.05 },
        note: `last quarter of ${usual.how}, against the third: medians ${usual.last.toFixed(1)} and ${usual.third.toFixed(1)} MB`,
        details: { "third quarter MB": usual.third, "last quarter MB": usual.last },
      }),
      toRow({
        name: "memory",
        unit: "MB",
        better: "less",
        rounds: [usual.most],
        target: { bound: "at most", value: MOST_RESIDENT_MB },
        note: `the most that was resident in the last half of ${usual.how}; ${usual.first.toFixed(1)} MB before the first; ${usual.files.toFixed(1)} MB of it are pages of the executable`,
        details: { "at first MB": usual.first, "of files MB": usual.files, samples: usual.samples },
      }),
      toRow({
        name: "memory, a thousand keys",
        unit: "MB",
        better: "less",
        rounds: [eachThousand],
        note: `the same with ${toCount(MOST_KEYS)} keys, a full cache, takes ${full.most.toFixed(1)} MB`,
        details: { "full cache MB": full.most },
      }),
    ];
  },
};

/** Watches the memory of a service while each of its keys is validated many times. */
async function measure({ stage, cores, scale, say }: Bench, keys: number) {
  const service = await stage.serve(await stage.createData(keys), { cores: cores.service });
  const load = stage.load(cores);
  const samples = [residentBytesOf(service.pid) / MEGABYTE];
  const timer = setInterval(() => samples.push(residentBytesOf(service.pid) / MEGABYTE), SAMPLE_MS);
  try {
    const result = await load.run(service, {
      request: "validate",
      keys,
      warmUpMs: 0,
      span: { kind: "count", requests: scale.manyRequests },
    });
    const quarter = Math.floor(samples.length / 4);
    const third = samples.slice(2 * quarter, 3 * quarter);
    const last = samples.slice(3 * quarter);
    const [first = Number.NaN] = samples;
    say(`  ${rateText([result])}; ${first.toFixed(0)} MB at first, ${median(last).toFixed(0)} MB at last`);
    return {
      first,
      third: median(third),
      last: median(last),
      most: Math.max(...third, ...last),
      files: residentFileBytesOf(service.pid) / MEGABYTE,
      samples: samples.length,
      how: `${toCount(scale.manyRequests)} validates over ${toCount(keys)} keys, at ${rateText([result])}`,
    };
  } finally {
    clearInterval(timer);
    await service.stop();
  }
}
