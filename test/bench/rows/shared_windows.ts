/**
 * Measures how much longer a client waits for validate if the windows of keys are in the database
 * (`CLAVIGER_RATE_LIMITS=shared`), with one process and the keys in turn.
 */
import { costUs, detailsOf, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import { median } from "../statistics.ts";

const KEYS = 2_000;
const CLIENTS = [1, 16, 256] as const;
/** The design allows 1 ms more with 16 clients. */
const TARGET = { bound: "at most", value: 1 } as const;

const nameOf = (clients: number) => `shared windows, ${clients} client${clients === 1 ? "" : "s"}`;

export const sharedWindows: RowGroup = {
  name: "shared windows",
  rows: CLIENTS.map(nameOf),
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const copy = await stage.copyData(dataDir);
    const alone = await stage.serve(dataDir, { cores: cores.service });
    const env = { CLAVIGER_RATE_LIMITS: "shared" };
    const shared = await stage.serve(copy, { cores: cores.service, env });
    const load = stage.load(cores);
    const rows: Row[] = [];
    for (const connections of CLIENTS) {
      const job = {
        ...({ request: "validate", keys: KEYS, connections, warmUpMs: scale.warmUpMs } as const),
        span: { kind: "time", ms: scale.roundMs } as const,
      };
      const results = await inTurn(bench, {
        process: () => load.run(alone, job),
        shared: () => load.run(shared, job),
      });
      const more = results.shared.map(({ p50Ms }, round) => p50Ms - (results.process[round]?.p50Ms ?? 0));
      const target = connections === 16 ? TARGET : undefined;
      rows.push(
        toRow({
          name: nameOf(connections),
          unit: "ms",
          better: "less",
          rounds: more,
          ...(target && { target }),
          note:
            `how much later half of the answers came: ${rateText(results.shared)} against ${rateText(results.process)}, ` +
            `${median(costUs(results.shared)).toFixed(0)} µs of CPU a request against ${median(costUs(results.process)).toFixed(0)}`,
          details: { ...detailsOf("shared", results.shared), ...detailsOf("process", results.process) },
        }),
      );
    }
    await Promise.all([alone, shared].map((server) => server.stop()));
    return rows;
  },
};
