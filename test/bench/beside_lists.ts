/**
 * Measures validate with and without lists of operators at the same time: the lists must not delay clients.
 *
 * PostgreSQL has another core than the service: it uses the load's core, where the load goes first, so that it does not
 * delay the load.
 */
import { first, moveTo } from "./cores.ts";
import type { LoadResult } from "./load_job.ts";
import { rateText } from "./measures.ts";
import { type Row, toRow } from "./row.ts";
import type { Bench } from "./row_group.ts";
import type { Server } from "./stage.ts";
import { median } from "./statistics.ts";
import { toText } from "./table.ts";

export const BESIDE_LISTS = "validate beside lists, added p99";

/** The keys that work: every fiftieth. */
const STEP = 50;
const CONNECTIONS = 64;
const VALIDATES_A_SECOND = 2_000;
/** As many lists as one token may read. */
const LISTS_A_SECOND = 10;

interface Options {
  readonly service: Server;
  /** Reads a list. */
  readonly get: (path: string) => Promise<unknown>;
  readonly paths: readonly string[];
}

export async function measureBesideLists(bench: Bench, options: Options): Promise<Row> {
  const { cores } = bench;
  // This process reads the lists, so it must not take time from the service either.
  await moveTo(cores.load, [process.pid]);
  const row = await measure(bench, options);
  await moveTo(cores.both, [process.pid]);
  return row;
}

async function measure({ stage, cores, scale, say }: Bench, { service, get, paths }: Options): Promise<Row> {
  const order = first().length === 0 ? ", and this user cannot let the load go first (chrt)" : "";
  const place = `another core than the service${order}`;
  const load = stage.load(cores, { isDatabaseApart: true });
  const validate = () =>
    load.run(service, {
      request: "validate",
      keys: { first: 0, step: STEP, count: scale.manyKeys / STEP },
      connections: CONNECTIONS,
      // A warm-up sends without pauses, and would leave PostgreSQL no time.
      warmUpMs: 0,
      span: { kind: "bursts", ms: 5 * scale.roundMs, perSecond: VALIDATES_A_SECOND },
    });
  const results: Record<"alone" | "beside", LoadResult[]> = { alone: [], beside: [] };
  await validate();
  let next = 0;
  for (let round = 0; round < scale.rounds; round++) {
    results.alone.push(await validate());
    const running = validate();
    let isRunning = true;
    void running.finally(() => {
      isRunning = false;
    });
    while (isRunning) {
      // A prime step, so that the lists take turns.
      next = (next + 101) % paths.length;
      await Promise.all([get(paths[next] ?? ""), Bun.sleep(1_000 / LISTS_A_SECOND)]);
    }
    results.beside.push(await running);
    const p99 = (kind: keyof typeof results) => toText(results[kind].at(-1)?.p99Ms ?? Number.NaN, "ms");
    say(
      `  round ${round + 1}  validate p99 ${p99("beside")} beside lists, ${p99("alone")} without; PostgreSQL on ${place}`,
    );
  }
  const p99s = (kind: keyof typeof results) => results[kind].map((result) => result.p99Ms);
  return toRow({
    name: BESIDE_LISTS,
    unit: "ms",
    better: "less",
    rounds: p99s("beside").map((beside, round) => beside - (p99s("alone")[round] ?? Number.NaN)),
    target: { bound: "at most", value: 0.5 },
    note:
      `p99 ${toText(median(p99s("beside")), "ms")} beside ${LISTS_A_SECOND} lists a second, against ` +
      `${toText(median(p99s("alone")), "ms")} without them, at ${rateText(results.alone)}; PostgreSQL on ${place}`,
    details: { "beside p99 ms": median(p99s("beside")), "alone p99 ms": median(p99s("alone")) },
  });
}
