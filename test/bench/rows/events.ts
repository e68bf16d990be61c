/**
 * Events, each acknowledged after its commit with fsync on: gathered into commits as the product does, and in
 * the plain form, the same service with a statement of its own for each. Load, service and PostgreSQL share
 * two cores.
 *
 * The executable gives the figure that has to be reached; ratios are taken between two services from source,
 * which differ in nothing but the gathering.
 */
import type { Finding } from "../../../src/doctor/mod.ts";
import type { LoadJob, LoadResult } from "../load_job.ts";
import { detailsOf, perSecond, rateText } from "../measures.ts";
import { toRow } from "../row.ts";
import { type Bench, inTurn, type RowGroup } from "../row_group.ts";
import { type Server, WITH_METRICS } from "../stage.ts";
import { median, ratios } from "../statistics.ts";
import { toText } from "../table.ts";

const KEYS = 20_000;
const ALONE = 1;
const SOME = 16;
const CROWD = 256;

export const events: RowGroup = {
  name: "events",
  rows: [
    "events, 256 clients",
    "events, 16 clients",
    "events, 1 client, latency",
    "events, 256 clients, claimed",
    "events, 16 clients, claimed",
    "events, 1 client, claimed",
    "events a second",
    "events a second, claimed",
  ],
  async run(bench) {
    const { stage, cores, scale } = bench;
    const two = cores.both;
    const dataDir = await stage.createData(KEYS);
    const dataDirs = [dataDir, await stage.copyData(dataDir), await stage.copyData(dataDir)] as const;
    const load = stage.load({ service: two, load: two });
    const acknowledged = new Map<Server, number>();
    const send = async (
      server: Server,
      connections: number,
      { request = "event", warmUpMs = scale.warmUpMs }: Partial<Pick<LoadJob, "request" | "warmUpMs">> = {},
    ): Promise<LoadResult> => {
      const result = await load.run(server, {
        request,
        keys: { first: 0, step: 1, count: KEYS },
        order: { kind: "in turn" },
        connections,
        warmUpMs,
        span: { kind: "time", ms: scale.roundMs },
      });
      acknowledged.set(server, (acknowledged.get(server) ?? 0) + result.answered);
      return result;
    };
    const claimed = { request: "claimed_event" } as const;
    const warmUp = { warmUpMs: scale.firstWarmUpMs };
    const finish = async (server: Server, folder: string) => {
      await demandDurability(bench, folder);
      await demandCounts(bench, folder, acknowledged.get(server) ?? 0);
      await server.stop();
    };

    // By itself: an idle service and its PostgreSQL take some of the two cores as well.
    const executable = await stage.serve(dataDirs[0], { cores: two, env: WITH_METRICS });
    await send(executable, CROWD, warmUp);
    const whole = await inTurn(bench, {
      "256 clients, executable": () => send(executable, CROWD),
      "the same, claimed": () => send(executable, CROWD, claimed),
    });
    const batch = meanBatch(await executable.counters());
    await finish(executable, dataDirs[0]);

    const gathered = await stage.serveEvents(dataDirs[1], { cores: two, plain: false });
    const plain = await stage.serveEvents(dataDirs[2], { cores: two, plain: true });
    for (const server of [gathered, plain]) await send(server, CROWD, warmUp);
    const crowd = await inTurn(bench, {
      "256 clients, gathered": () => send(gathered, CROWD),
      "256 clients, plain": () => send(plain, CROWD),
      "256 clients, claimed": () => send(gathered, CROWD, claimed),
    });
    const some = await inTurn(bench, {
      "16 clients, gathered": () => send(gathered, SOME),
      "16 clients, plain": () => send(plain, SOME),
      "16 clients, claimed": () => send(gathered, SOME, claimed),
    });
    const alone = await inTurn(bench, {
      "1 client, gathered": () => send(gathered, ALONE),
      "1 client, plain": () => send(plain, ALONE),
      "1 client, claimed": () => send(gathered, ALONE, claimed),
    });
    await finish(gathered, dataDirs[1]);
    await finish(plain, dataDirs[2]);

    const full = {
      executable: whole["256 clients, executable"],
      gathered: crowd["256 clients, gathered"],
      plain: crowd["256 clients, plain"],
    };
    const less = { gathered: some["16 clients, gathered"], plain: some["16 clients, plain"] };
    const one = { gathered: alone["1 client, gathered"], plain: alone["1 client, plain"] };
    const claimRow = (name: string, { with: results, without }: Record<"with" | "without", LoadResult[]>) =>
      toRow({
        name,
        unit: "×",
        better: "more",
        rounds: ratios(perSecond(results), perSecond(without)),
        note: `every event with an Idempotency-Key of its own: ${rateText(results)}, against ${rateText(without)} without`,
        details: detailsOf("claimed", results),
      });
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
      claimRow("events, 256 clients, claimed", {
        with: crowd["256 clients, claimed"],
        without: full.gathered,
      }),
      claimRow("events, 16 clients, claimed", { with: some["16 clients, claimed"], without: less.gathered }),
      claimRow("events, 1 client, claimed", { with: alone["1 client, claimed"], without: one.gathered }),
      toRow({
        name: "events a second",
        unit: "/s",
        better: "more",
        rounds: perSecond(full.executable),
        target: { bound: "more than", value: 30_000 },
        note:
          `the executable, 256 clients, fsync on, two cores with load and PostgreSQL; ${batch.toFixed(0)} events a ` +
          `commit; p50 ${toText(median(p50s(full.executable)), "ms")}, p99 ${p99(full.executable)}; all that was ` +
          "acknowledged was found counted",
        details: { ...detailsOf("executable", full.executable), "events a commit": batch },
      }),
      toRow({
        name: "events a second, claimed",
        unit: "/s",
        better: "more",
        rounds: perSecond(whole["the same, claimed"]),
        note: "the same with an Idempotency-Key on every event",
        details: detailsOf("executable", whole["the same, claimed"]),
      }),
    ];
  },
};

const p50s = (results: readonly LoadResult[]) => results.map((result) => result.p50Ms);
const p99 = (results: readonly LoadResult[]) => toText(median(results.map((result) => result.p99Ms)), "ms");

/** The doctor says of the running database whether a commit reaches the disk. */
async function demandDurability({ stage }: Bench, dataDir: string): Promise<void> {
  const out = await stage.command(["doctor", "--json", "--data-dir", dataDir]);
  const { findings } = JSON.parse(out) as { readonly findings: readonly Finding[] };
  const durability = findings.find(({ name }) => name === "durability");
  if (durability?.state !== "ok") throw new Error("The database does not put commits on the disk");
}

/** Everything that was acknowledged must have been counted, and nothing else. */
async function demandCounts({ stage }: Bench, dataDir: string, acknowledged: number): Promise<void> {
  const month = new Date().toISOString().slice(0, 7);
  const out = await stage.command(["usage", "export", "--month", month, "--json", "--data-dir", dataDir]);
  const used = (JSON.parse(out) as { used: number }[]).reduce((sum, license) => sum + license.used, 0);
  if (used !== acknowledged) throw new Error(`${acknowledged} events were acknowledged, ${used} are counted`);
}

function meanBatch(counters: ReadonlyMap<string, number>): number {
  const name = "claviger_event_batch_size";
  return (counters.get(`${name}_sum{}`) ?? Number.NaN) / (counters.get(`${name}_count{}`) ?? Number.NaN);
}
