/**
 * Compares validate with few and with many keys in the database: the cost of a request must not depend on the number of
 * customers. The cache holds 50,000 keys, so only a part of a million keys is warm.
 */
import type { KeyOrder, KeySet } from "../bench_keys.ts";
import { costUs, detailsOf, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import type { StageJob } from "../stage.ts";
import { median, ratios } from "../statistics.ts";
import { toCount } from "../table.ts";

const FEW = 1_000;
/** The number of warm keys among the many, spread over all of them. */
const WARM = 20_000;
const DRAWS = 100_000;
const TARGET = { bound: "at most", value: 1.2 } as const;

export const keyCount: RowGroup = {
  name: "keys",
  rows: ["cost, many keys, uniform", "cost, many keys, skewed"],
  async run(bench) {
    const { stage, cores, scale, say } = bench;
    const core = cores.service;
    const many = toCount(scale.manyKeys);
    say(`  importing ${many} keys`);
    const manyDir = await stage.createData(scale.manyKeys);
    const fewKeys = await stage.serve(await stage.createData(FEW), { cores: core });
    const manyKeys = await stage.serve(manyDir, { cores: core });
    const load = stage.load(cores);
    const step = scale.manyKeys / WARM;
    const warm: KeySet = { first: 0, step, count: WARM };
    const uniform: KeyOrder = { kind: "in turn" };
    const skewed: KeyOrder = { kind: "zipf", draws: DRAWS, seed: 1 };
    const job = (keys: StageJob["keys"], order: KeyOrder, warmUpMs = scale.warmUpMs): StageJob => ({
      ...{ request: "validate", keys, order, warmUpMs },
      span: { kind: "time", ms: scale.roundMs },
    });
    await load.run(fewKeys, job(FEW, uniform, scale.firstWarmUpMs));
    await load.run(manyKeys, job(warm, uniform, scale.firstWarmUpMs));

    const results = await inTurn(bench, {
      "few keys, uniform": () => load.run(fewKeys, job(FEW, uniform)),
      "many keys, uniform": () => load.run(manyKeys, job(warm, uniform)),
      "few keys, skewed": () => load.run(fewKeys, job(FEW, skewed)),
      "many keys, skewed": () => load.run(manyKeys, job(warm, skewed)),
    });
    await Promise.all([fewKeys.stop(), manyKeys.stop()]);

    return (["uniform", "skewed"] as const).map((name): Row => {
      const costs = { few: results[`few keys, ${name}`], many: results[`many keys, ${name}`] };
      const how = name === "uniform" ? "in turn" : "by Zipf's law";
      return toRow({
        name: `cost, many keys, ${name}`,
        unit: "×",
        better: "less",
        rounds: ratios(costUs(costs.many), costUs(costs.few)),
        target: TARGET,
        note:
          `CPU of service and PostgreSQL for a warm validate, ${toCount(WARM)} of ${many} keys ${how}, against ` +
          `${toCount(FEW)} of ${toCount(FEW)}: ${median(costUs(costs.many)).toFixed(1)} µs against ` +
          `${median(costUs(costs.few)).toFixed(1)}; ${rateText(costs.many)} against ${rateText(costs.few)}`,
        details: { ...detailsOf("many", costs.many), ...detailsOf("few", costs.few) },
      });
    });
  },
};
