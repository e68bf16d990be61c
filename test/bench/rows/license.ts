/** Measures signed licenses: how many a second, and what each costs in CPU time. */
import { coresText, costUs, detailsOf, partUs, perSecond } from "../measures.ts";
import { toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import { median } from "../statistics.ts";
import { toCount } from "../table.ts";

const KEYS = 20_000;
const CONNECTIONS = 64;
const NAME = "signed licenses";

export const license: RowGroup = {
  name: "license",
  rows: [NAME],
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const service = await stage.serve(dataDir, { cores: cores.service });
    const load = stage.load(cores);
    const run = (warmUpMs: number) =>
      load.run(service, {
        request: "license",
        keys: { first: 0, step: 1, count: KEYS },
        order: { kind: "in turn" },
        connections: CONNECTIONS,
        warmUpMs,
        span: { kind: "time", ms: scale.roundMs },
      });
    await run(scale.firstWarmUpMs);
    const { [NAME]: signed } = await inTurn(bench, { [NAME]: () => run(scale.warmUpMs) });
    await service.stop();
    const text = (figures: readonly number[]) => median(figures).toFixed(0);
    return [
      toRow({
        name: NAME,
        unit: "/s",
        better: "more",
        rounds: perSecond(signed),
        note:
          `${toCount(KEYS)} keys in turn; ${text(costUs(signed))} µs of CPU for each: ` +
          `${text(partUs(signed, "serviceCpu"))} in the service, ${text(partUs(signed, "databaseCpu"))} in PostgreSQL; ` +
          coresText(signed),
        details: detailsOf("license", signed),
      }),
    ];
  },
};
