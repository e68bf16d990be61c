/**
 * Measures how much longer a client waits for validate if the windows of keys are in the database
 * (`CLAVIGER_RATE_LIMITS=shared`). The process and its PostgreSQL have one core together, and the keys come in turn.
 */
import { costUs, detailsOf, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import type { StageJob } from "../stage.ts";
import { median } from "../statistics.ts";

const KEYS = 2_000;
/** 16 clients may be answered so many milliseconds later. */
const TARGET = { bound: "at most", value: 1 } as const;
const LOADS = [{ clients: 16, target: TARGET }, { clients: 256 }] as const;

const nameOf = (clients: number) => `shared windows, ${clients} clients`;

export const sharedWindows: RowGroup = {
  name: "shared windows",
  rows: LOADS.map(({ clients }) => nameOf(clients)),
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const load = stage.load(cores);
    const serve = async (rateLimits: "process" | "shared") =>
      await stage.serveBesidePostgres(await stage.copyData(dataDir), {
        ...{ cores: cores.service, env: { CLAVIGER_RATE_LIMITS: rateLimits } },
      });
    const [alone, shared] = [await serve("process"), await serve("shared")];
    const rows: Row[] = [];
    for (const { clients, ...target } of LOADS) {
      const job = (warmUpMs: number): StageJob => ({
        ...{ request: "validate", keys: KEYS, connections: clients, warmUpMs },
        span: { kind: "time", ms: scale.roundMs },
      });
      for (const server of [alone, shared]) await load.run(server, job(scale.firstWarmUpMs));
      const results = await inTurn(bench, {
        process: () => load.run(alone, job(scale.warmUpMs)),
        shared: () => load.run(shared, job(scale.warmUpMs)),
      });
      const cost = (form: keyof typeof results) => `${median(costUs(results[form])).toFixed(0)} µs`;
      rows.push(
        toRow({
          name: nameOf(clients),
          unit: "ms",
          better: "less",
          rounds: results.shared.map(({ p50Ms }, round) => p50Ms - (results.process[round]?.p50Ms ?? 0)),
          ...target,
          note:
            `how much later half of the answers came: ${rateText(results.shared)} against ${rateText(results.process)}, ` +
            `${cost("shared")} of CPU a request against ${cost("process")}`,
          details: { ...detailsOf("shared", results.shared), ...detailsOf("process", results.process) },
        }),
      );
    }
    await Promise.all([alone, shared].map((server) => server.stop()));
    return rows;
  },
};
