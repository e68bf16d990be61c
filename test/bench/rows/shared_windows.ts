/**
 * Measures how much longer a client waits for validate if the windows of keys are in the database
 * (`CLAVIGER_RATE_LIMITS=shared`), with one process and with three that are asked in turn. All processes and their
 * PostgreSQL have one core together, and the keys come in turn. So three processes share it, and are not three times as
 * fast.
 */
import { costUs, detailsOf, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import type { Server } from "../stage.ts";
import { median } from "../statistics.ts";

const KEYS = 2_000;
const CASES = [
  { processes: 1, clients: 1 },
  { processes: 1, clients: 16 },
  { processes: 1, clients: 256 },
  { processes: 3, clients: 16 },
  { processes: 3, clients: 256 },
] as const;
/** One process may answer 16 clients so many milliseconds later. */
const TARGET = { bound: "at most", value: 1 } as const;

type Case = (typeof CASES)[number];

const counted = (count: number, name: string, plural: string) => `${count} ${count === 1 ? name : plural}`;
const nameOf = ({ processes, clients }: Case) =>
  `shared windows, ${counted(processes, "process", "processes")}, ${counted(clients, "client", "clients")}`;

export const sharedWindows: RowGroup = {
  name: "shared windows",
  rows: CASES.map(nameOf),
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const load = stage.load(cores);
    const rows: Row[] = [];
    for (const processes of [1, 3] as const) {
      const serve = async (rateLimits: "process" | "shared"): Promise<Server> =>
        await stage.serveTogether(await stage.copyData(dataDir), {
          ...{ processes, cores: cores.service, env: { CLAVIGER_RATE_LIMITS: rateLimits } },
        });
      const [alone, shared] = [await serve("process"), await serve("shared")];
      for (const one of CASES.filter((other) => other.processes === processes)) {
        const job = {
          ...({
            request: "validate",
            keys: KEYS,
            connections: one.clients,
            warmUpMs: scale.warmUpMs,
          } as const),
          span: { kind: "time", ms: scale.roundMs } as const,
        };
        for (const server of [alone, shared])
          await load.run(server, { ...job, warmUpMs: scale.firstWarmUpMs });
        const results = await inTurn(bench, {
          process: () => load.run(alone, job),
          shared: () => load.run(shared, job),
        });
        const cost = (form: keyof typeof results) => `${median(costUs(results[form])).toFixed(0)} µs`;
        rows.push(
          toRow({
            name: nameOf(one),
            unit: "ms",
            better: "less",
            rounds: results.shared.map(({ p50Ms }, round) => p50Ms - (results.process[round]?.p50Ms ?? 0)),
            ...(processes === 1 && one.clients === 16 && { target: TARGET }),
            note:
              `how much later half of the answers came: ${rateText(results.shared)} against ${rateText(results.process)}, ` +
              `${cost("shared")} of CPU a request against ${cost("process")}`,
            details: { ...detailsOf("shared", results.shared), ...detailsOf("process", results.process) },
          }),
        );
      }
      await Promise.all([alone, shared].map((server) => server.stop()));
    }
    return rows;
  },
};
