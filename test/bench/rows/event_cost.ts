/**
 * Measures the cost of an acknowledged event, relative to a floor that is measured in the same rounds.
 *
 * The cost is the CPU time of the service and its PostgreSQL for one event. The floor is the CPU time of a bare
 * Hono echo for one request with the same body, plus the CPU time of PostgreSQL alone for inserting one such row
 * into the same table, in statements as large as the service's.
 */
import { EVENT_KEYS, startEventLoad } from "../event_load.ts";
import type { LoadResult, StoreJob } from "../load_job.ts";
import { costUs, detailsOf, partUs, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { type Bench, inTurn, type RowGroup } from "../row_group.ts";
import { WITH_METRICS } from "../stage.ts";
import { median, ratios } from "../statistics.ts";

interface EventCostLoad {
  readonly clients: number;
  /** The target: the measured value plus 10 %. README.md says where the cost comes from. */
  readonly atMost: number;
}

const LOADS: readonly EventCostLoad[] = [
  { clients: 256, atMost: 2.1 },
  { clients: 16, atMost: 3.2 },
  { clients: 1, atMost: 3.8 },
];

/** One group for each number of clients, so that each can be measured by itself. */
export const eventCosts: readonly RowGroup[] = LOADS.map((load) => {
  const name = `event cost, ${load.clients} ${load.clients === 1 ? "client" : "clients"}`;
  return {
    name,
    rows: [name],
    run: async (bench) => [toCostRow({ name, ...load, ...(await measure(bench, load)) })],
  };
});

async function measure(bench: Bench, { clients }: EventCostLoad) {
  const { stage, cores, scale } = bench;
  const two = cores.both;
  const dataDir = await stage.createData(EVENT_KEYS);
  const copy = await stage.copyData(dataDir);
  // Run the service once: it makes this month's partition, which PostgreSQL alone would not make.
  await (await stage.serve(copy, { cores: two })).stop();
  const store = stage.store(copy, two);
  const echo = await stage.echo(two);
  const service = await stage.serve(dataDir, { cores: two, env: WITH_METRICS });
  const { send, finish } = startEventLoad(bench);
  for (const server of [service, echo]) {
    // Many clients get the code compiled soonest.
    for (const connections of [256, clients])
      await send(server, connections, { warmUpMs: scale.firstWarmUpMs / 2 });
  }

  const batches: number[] = [];
  const storeAs = (statement: StoreJob["statement"]) =>
    store.run({ statement, batch: batches.at(-1) ?? 1, warmUpMs: scale.warmUpMs, ms: scale.roundMs });
  const results = await inTurn(bench, {
    service: async () => {
      const before = await service.counters();
      const result = await send(service, clients);
      batches.push(meanBatch(before, await service.counters()));
      return result;
    },
    echo: () => send(echo, clients),
    rows: () => storeAs("rows"),
    commits: () => storeAs("commit"),
  });
  await finish(service, dataDir);
  await Promise.all([echo.stop(), store.stop()]);
  return { ...results, batch: median(batches) };
}

interface Measured extends EventCostLoad {
  readonly name: string;
  /** Events per statement. */
  readonly batch: number;
  readonly service: readonly LoadResult[];
  readonly echo: readonly LoadResult[];
  /** PostgreSQL alone, with the floor's statement and with the service's. */
  readonly rows: readonly LoadResult[];
  readonly commits: readonly LoadResult[];
}

/** The parts of an event's cost, by their names in the details of a row. */
export type CostDetail =
  | "µs of the service"
  | "µs of PostgreSQL"
  | "µs of the echo"
  | "µs of PostgreSQL, rows alone"
  | "µs of PostgreSQL, commits alone"
  | "µs of a client, commits alone"
  | "events a statement";

function toCostRow({ name, atMost, batch, service, echo, rows, commits }: Measured): Row {
  const rowUs = partUs(rows, "databaseCpu");
  const floorUs = costUs(echo).map((us, round) => us + (rowUs[round] ?? Number.NaN));
  const parts: Record<CostDetail, number> = {
    "µs of the service": median(partUs(service, "serviceCpu")),
    "µs of PostgreSQL": median(partUs(service, "databaseCpu")),
    "µs of the echo": median(costUs(echo)),
    "µs of PostgreSQL, rows alone": median(rowUs),
    "µs of PostgreSQL, commits alone": median(partUs(commits, "databaseCpu")),
    "µs of a client, commits alone": median(partUs(commits, "loadCpu")),
    "events a statement": batch,
  };
  const us = (part: CostDetail) => parts[part].toFixed(1);
  return toRow({
    name,
    unit: "×",
    better: "less",
    rounds: ratios(costUs(service), floorUs),
    target: { bound: "at most", value: atMost },
    note:
      `CPU of an event: service ${us("µs of the service")} µs and PostgreSQL ${us("µs of PostgreSQL")} µs, against ` +
      `${us("µs of the echo")} µs of a bare Hono echo and ${us("µs of PostgreSQL, rows alone")} µs of PostgreSQL for ` +
      `the rows alone, ${batch.toFixed(1)} a statement; the service's statement alone costs PostgreSQL ` +
      `${us("µs of PostgreSQL, commits alone")} µs and its client ${us("µs of a client, commits alone")} µs; ` +
      rateText(service),
    details: { ...detailsOf("service", service), ...parts },
  });
}

/** Returns the mean number of events per statement between two readings of the service's counters. */
function meanBatch(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): number {
  const grown = (counter: string) => {
    const name = `claviger_event_batch_size_${counter}{}`;
    return (after.get(name) ?? Number.NaN) - (before.get(name) ?? Number.NaN);
  };
  return grown("sum") / grown("count");
}
