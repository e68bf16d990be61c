/**
 * Measures events, each acknowledged after its commit with fsync on, in two forms: gathered into group commits as in the
 * product, and plain, where the same service uses one statement per event. Load, service and PostgreSQL share
 * two cores. Both services run from source and differ only in the gathering.
 */
import { EVENT_KEYS, startEventLoad } from "../event_load.ts";
import type { LoadResult } from "../load_job.ts";
import { detailsOf, perSecond, rateText } from "../measures.ts";
import { toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import { median, ratios } from "../statistics.ts";
import { toText } from "../table.ts";

const ALONE = 1;
const SOME = 16;
const CROWD = 256;

export const events: RowGroup = {
  name: "events",
  rows: ["events, 256 clients", "events, 16 clients", "events, 1 client, latency", "events a second"],
  async run(bench) {
    const { stage, cores, scale } = bench;
    const two = cores.both;
    const dataDir = await stage.createData(EVENT_KEYS);
    const copy = await stage.copyData(dataDir);
    const { send, finish } = startEventLoad(bench);
    const warmUp = { warmUpMs: scale.firstWarmUpMs };

    const gathered = await stage.serveEvents(dataDir, { cores: two, plain: false });
    const plain = await stage.serveEvents(copy, { cores: two, plain: true });
    for (const server of [gathered, plain]) await send(server, CROWD, warmUp);
    const measure = (clients: number) => {
      bench.say(`  clients: ${clients}`);
      return inTurn(bench, {
        gathered: () => send(gathered, clients),
        plain: () => send(plain, clients),
      });
    };
    const full = await measure(CROWD);
    const less = await measure(SOME);
    const one = await measure(ALONE);
    await finish(gathered, dataDir);
    await finish(plain, copy);

    return [
      toRow({
        name: "events, 256 clients",
        unit: "×",
        better: "more",
        rounds: ratios(perSecond(full.gathered), perSecond(full.plain)),
        target: { bound: "at least", value: 2.2 },
        note:
          `${rateText(full.gathered)} against ${rateText(full.plain)} of the same service with one statement per ` +
          `request, both from source; p99 ${p99(full.gathered)} against ${p99(full.plain)}`,
        details: { ...detailsOf("gathered", full.gathered), ...detailsOf("plain", full.plain) },
      }),
      toRow({
        name: "events, 16 clients",
        unit: "×",
        better: "more",
        rounds: ratios(perSecond(less.gathered), perSecond(less.plain)),
        note: `${rateText(less.gathered)} against ${rateText(less.plain)} of one statement per request`,
        details: { ...detailsOf("gathered", less.gathered), ...detailsOf("plain", less.plain) },
      }),
      toRow({
        name: "events, 1 client, latency",
        unit: "×",
        better: "less",
        rounds: ratios(p50s(one.gathered), p50s(one.plain)),
        target: { bound: "at most", value: 1.25 },
        note:
          `p50 ${toText(median(p50s(one.gathered)), "ms")} against ${toText(median(p50s(one.plain)), "ms")} of one ` +
          "statement per request",
        details: { ...detailsOf("gathered", one.gathered), ...detailsOf("plain", one.plain) },
      }),
      rateRow("events a second", full.gathered, "every acknowledged event was found counted"),
    ];
  },
};

/** For information only: such a figure depends more on the machine than on the service. */
const rateRow = (name: string, results: readonly LoadResult[], how: string) =>
  toRow({
    name,
    unit: "/s",
    better: "more",
    rounds: perSecond(results),
    note:
      `${CROWD} clients, the service from source, fsync on, two cores for load, service and PostgreSQL; p50 ` +
      `${toText(median(p50s(results)), "ms")}, p99 ${p99(results)}; ${how}`,
    details: detailsOf("service", results),
  });

const p50s = (results: readonly LoadResult[]) => results.map((result) => result.p50Ms);
const p99 = (results: readonly LoadResult[]) => toText(median(results.map((result) => result.p99Ms)), "ms");
