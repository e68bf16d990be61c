/**
 * Compares validate with few and with many keys in the database: the cost of a request must not depend on the number of
 * customers. The cache holds 50,000 keys, so only a part of a million keys is warm. Two more rows measure
 * requests beyond the cache, and the first touch of a key.
 */
import type { KeyOrder, KeySet } from "../bench_keys.ts";
import { costUs, databaseShare, detailsOf, percent, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import { type StageJob, WITH_METRICS } from "../stage.ts";
import { median, ratios } from "../statistics.ts";
import { toCount } from "../table.ts";

const FEW = 1_000;
/** The number of warm keys among the many, spread over all of them. */
const WARM = 20_000;
const CACHE = 50_000;
/** The service joins look-ups, so many clients measure the first touch of keys. */
const COLD_CONNECTIONS = 256;
const DRAWS = 100_000;
const TARGET = { bound: "at most", value: 1.2 } as const;

export const keyCount: RowGroup = {
  name: "keys",
  rows: [
    "cost, many keys, uniform",
    "cost, many keys, skewed",
    "cost, first touch",
    "cost, beyond the cache",
  ],
  async run(bench) {
    const { stage, cores, scale, say } = bench;
    const core = cores.service;
    const many = toCount(scale.manyKeys);
    say(`  importing ${many} keys`);
    const manyDir = await stage.createData(scale.manyKeys);
    const fewKeys = await stage.serve(await stage.createData(FEW), { cores: core });
    const manyKeys = await stage.serve(manyDir, { cores: core, env: WITH_METRICS });
    const load = stage.load(cores);
    const step = scale.manyKeys / WARM;
    const warm: KeySet = { first: 0, step, count: WARM };
    /** Returns other keys for each round, none of them warm or touched before. */
    const strangers = (before: number): KeySet => ({ first: before + 1, step, count: WARM });
    const uniform: KeyOrder = { kind: "in turn" };
    const skewed: KeyOrder = { kind: "zipf", draws: DRAWS, seed: 1 };
    const job = (keys: StageJob["keys"], order: KeyOrder, warmUpMs = scale.warmUpMs): StageJob => ({
      ...{ request: "validate", keys, order, warmUpMs },
      span: { kind: "time", ms: scale.roundMs },
    });
    const touchOnce = (keys: KeySet): StageJob => ({
      ...job(keys, uniform),
      connections: COLD_CONNECTIONS,
      span: { kind: "count", requests: keys.count },
    });
    await load.run(fewKeys, job(FEW, uniform, scale.firstWarmUpMs));
    await load.run(manyKeys, job(warm, uniform, scale.firstWarmUpMs));

    const results = await inTurn(bench, {
      "few keys, uniform": () => load.run(fewKeys, job(FEW, uniform)),
      "many keys, uniform": () => load.run(manyKeys, job(warm, uniform)),
      "few keys, skewed": () => load.run(fewKeys, job(FEW, skewed)),
      "many keys, skewed": () => load.run(manyKeys, job(warm, skewed)),
    });
    const later = await inTurn(bench, {
      // Each round has other keys, none of them touched before.
      "first touch": (before) => load.run(manyKeys, touchOnce(strangers(before))),
    });
    const everyone = scale.manyKeys;
    const drawn = (seed: number): KeyOrder => ({ kind: "zipf", draws: 2 * DRAWS, seed });
    await load.run(manyKeys, job(everyone, drawn(1_000), scale.firstWarmUpMs));
    const hitsBefore = await manyKeys.counters();
    const beyond = await inTurn(bench, {
      "beyond the cache": (before) => load.run(manyKeys, job(everyone, drawn(1_001 + before))),
    });
    const hits = hitShare(hitsBefore, await manyKeys.counters());
    await Promise.all([fewKeys.stop(), manyKeys.stop()]);

    const compared = (["uniform", "skewed"] as const).map((name): Row => {
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
    const cold = later["first touch"];
    const wide = beyond["beyond the cache"];
    const warmUs = median(costUs(results["many keys, uniform"]));
    return [
      ...compared,
      toRow({
        name: "cost, first touch",
        unit: "µs",
        better: "less",
        rounds: costUs(cold),
        note:
          `CPU of service and PostgreSQL for the first validate of a key among ${many}, ${COLD_CONNECTIONS} clients ` +
          `whose look-ups are joined: ${(median(costUs(cold)) - warmUs).toFixed(1)} µs more than a warm one, ` +
          `PostgreSQL ${percent(databaseShare(cold))} of the core; ${rateText(cold)}`,
        details: detailsOf("cold", cold),
      }),
      toRow({
        name: "cost, beyond the cache",
        unit: "µs",
        better: "less",
        rounds: costUs(wide),
        note:
          `the same over all ${many} keys by Zipf's law, of which the cache holds ${toCount(CACHE)}: ` +
          `${percent(hits)} of the requests find their key there; ${rateText(wide)}`,
        details: { ...detailsOf("wide", wide), "hit share": hits },
      }),
    ];
  },
};

type Counters = ReadonlyMap<string, number>;

function hitShare(before: Counters, after: Counters): number {
  const grown = (result: string) => {
    const name = `claviger_key_cache_requests_total{result="${result}"}`;
    return (after.get(name) ?? Number.NaN) - (before.get(name) ?? Number.NaN);
  };
  return grown("hit") / (grown("hit") + grown("miss"));
}
