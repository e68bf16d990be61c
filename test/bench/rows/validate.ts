/**
 * Compares validate with a bare Hono echo: how much keys, limits, log and headers cost. In the full-log row, the service
 * logs each request, and the echo writes a line of the same length per request to the same kind of file. In the third
 * row the echo's answers have the headers and the length of the service's: what is left is the work.
 */
import { benchKey } from "../bench_keys.ts";
import type { AnswerForm } from "../echo.ts";
import { coresText, costUs, detailsOf, perSecond, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import type { Server, StageJob } from "../stage.ts";
import { median, ratios } from "../statistics.ts";
import { toCount } from "../table.ts";

const KEYS = 20_000;
const PLAIN_TARGET = { bound: "at least", value: 0.75 } as const;
/** A guard against loss: 0.79, which was measured on 2026-11-23, less 5 %. By CPU, which varies less than the rate. */
const SAME_ANSWER_TARGET = { bound: "at least", value: 0.75 } as const;

export const validate: RowGroup = {
  name: "validate",
  rows: ["validate, default log", "validate, full log", "validate, same answer"],
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const copy = await stage.copyData(dataDir);
    const core = cores.service;
    const sampled = await stage.serve(dataDir, { cores: core });
    const full = await stage.serve(copy, { cores: core, env: { CLAVIGER_LOG_REQUESTS: "all" } });
    const load = stage.load(cores);
    const job = (warmUpMs: number): StageJob => ({
      request: "validate",
      keys: KEYS,
      warmUpMs,
      span: { kind: "time", ms: scale.roundMs },
    });
    for (const server of [sampled, full]) await load.run(server, job(scale.firstWarmUpMs));
    const lineBytes = full.logLineBytes();
    const echo = await stage.echo(core);
    const loggingEcho = await stage.echo(core, { lineBytes });
    const likeEcho = await stage.echo(core, { form: await formOf(sampled) });
    for (const server of [echo, loggingEcho, likeEcho]) await load.run(server, job(scale.firstWarmUpMs));

    const results = await inTurn(bench, {
      "bare echo": () => load.run(echo, job(scale.warmUpMs)),
      "echo with a line": () => {
        loggingEcho.forgetLog();
        return load.run(loggingEcho, job(scale.warmUpMs));
      },
      "echo of the same answer": () => load.run(likeEcho, job(scale.warmUpMs)),
      "validate, default log": () => load.run(sampled, job(scale.warmUpMs)),
      "validate, full log": () => {
        full.forgetLog();
        return load.run(full, job(scale.warmUpMs));
      },
    });
    await Promise.all([echo, loggingEcho, likeEcho, sampled, full].map((server) => server.stop()));

    const compared = [
      { name: "validate, default log", form: "bare echo", target: PLAIN_TARGET, does: "", byCpu: false },
      {
        name: "validate, full log",
        form: "echo with a line",
        target: PLAIN_TARGET,
        does: ` that writes a line of ${lineBytes} bytes for each request`,
        byCpu: false,
      },
      {
        name: "validate, same answer",
        form: "echo of the same answer",
        target: SAME_ANSWER_TARGET,
        does: " with the same headers and a body of the same length, compared by CPU",
        byCpu: true,
      },
    ] as const;
    return compared.map(({ name, form, target, does, byCpu }): Row => {
      const answered = results[name === "validate, full log" ? name : "validate, default log"];
      const echoed = results[form];
      return toRow({
        name,
        unit: "×",
        better: "more",
        rounds: byCpu
          ? ratios(costUs(echoed), costUs(answered))
          : ratios(perSecond(answered), perSecond(echoed)),
        target,
        note:
          `${rateText(answered)} warm, ${toCount(KEYS)} keys in turn, against ${rateText(echoed)} of a bare Hono JSON echo${does}, on ` +
          `the same Bun; ${median(costUs(answered)).toFixed(1)} µs of CPU a request against ` +
          `${median(costUs(echoed)).toFixed(1)}; ${coresText(answered)} (echo: ${coresText(echoed)})`,
        details: { ...detailsOf("validate", answered), ...detailsOf("echo", echoed) },
      });
    });
  },
};

/** Asks the service once, and returns the form of its answer. The server adds the date and the length itself. */
async function formOf({ host, port }: Server): Promise<AnswerForm> {
  const body = JSON.stringify({ api_key: benchKey(0) });
  const answer = await fetch(`http://${host}:${port}/v1/auth/validate`, { method: "POST", body });
  const { date: _, "content-length": __, connection: ___, ...headers } = Object.fromEntries(answer.headers);
  return { headers, addedBytes: (await answer.arrayBuffer()).byteLength - body.length };
}
