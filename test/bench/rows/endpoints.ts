/**
 * Measures the other endpoints at half of their highest rate: how long a client waits at an ordinary time. The load
 * keeps to a schedule and measures from the time at which a request was due, so a pause of the service shows in every
 * request that it delayed.
 */
import type { LoadResult, RequestKind } from "../load_job.ts";
import { rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import type { RowGroup } from "../row_group.ts";
import { median } from "../statistics.ts";
import { toText } from "../table.ts";

const KEYS = 20_000;

const ENDPOINTS = [
  { name: "model list", request: "models" },
  { name: "refresh", request: "refresh" },
  { name: "installer token", request: "repo_token" },
] as const satisfies readonly { name: string; request: RequestKind }[];

export const endpoints: RowGroup = {
  name: "endpoints",
  rows: ENDPOINTS.flatMap(({ name }) => [`${name}, p50`, `${name}, p99`]),
  async run(bench) {
    const { stage, cores, scale, say } = bench;
    const dataDir = await stage.createData(KEYS);
    const service = await stage.serve(dataDir, { cores: cores.service });
    await stage.command(["installer", "set-token", "--data-dir", dataDir], "token-that-opens-nothing\n");
    const load = stage.load(cores);
    const saturate = (request: RequestKind, warmUpMs: number) =>
      load.run(service, { request, keys: KEYS, warmUpMs, span: { kind: "time", ms: scale.roundMs / 2 } });

    const measured = ENDPOINTS.map((endpoint) => ({
      ...endpoint,
      saturated: [] as LoadResult[],
      calm: [] as LoadResult[],
    }));
    for (const { request } of ENDPOINTS) await saturate(request, scale.firstWarmUpMs);
    for (let round = 0; round < scale.rounds; round++) {
      for (const { name, request, ...results } of measured) {
        const saturated = await saturate(request, scale.warmUpMs);
        const span = { kind: "schedule", ms: scale.roundMs, perSecond: saturated.perSecond / 2 } as const;
        const calm = await load.run(service, { request, keys: KEYS, warmUpMs: scale.warmUpMs, span });
        results.saturated.push(saturated);
        results.calm.push(calm);
        const waits = `p50 ${toText(calm.p50Ms, "ms")}, p99 ${toText(calm.p99Ms, "ms")}`;
        say(
          `  round ${round + 1}  ${name.padEnd(16)} ${saturated.perSecond.toFixed(0)}/s; at half of it ${waits}`,
        );
      }
    }
    await service.stop();

    return measured.flatMap(({ name, saturated, calm }) => {
      const late = median(calm.map((result) => result.lateP99Ms));
      const details = {
        "per second at most": median(saturated.map((result) => result.perSecond)),
        "per second at half": median(calm.map((result) => result.perSecond)),
        "sent late p99 ms": late,
      };
      return (["p50", "p99"] as const).map(
        (kind): Row =>
          toRow({
            name: `${name}, ${kind}`,
            unit: "ms",
            better: "less",
            rounds: calm.map((result) => (kind === "p50" ? result.p50Ms : result.p99Ms)),
            note:
              `at ${rateText(calm)}, half of the ${rateText(saturated)} that it answers at most; from when a request ` +
              `was due (99 % were sent within ${toText(late, "ms")} of it)`,
            details,
          }),
      );
    });
  },
};
