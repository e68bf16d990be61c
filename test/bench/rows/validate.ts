/**
 * Compares validate with a bare Hono echo: how much keys, limits, log and headers cost. In the full-log row, the service
 * logs each request, and the echo writes a line of the same length per request to the same kind of file.
 */
import type { LoadJob } from "../load_job.ts";
import { coresText, costUs, detailsOf, perSecond, rateText } from "../measures.ts";
import { type Row, toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import { median, ratios } from "../statistics.ts";
import { toCount } from "../table.ts";

const KEYS = 20_000;
const CONNECTIONS = 64;
const TARGET = { bound: "at least", value: 0.75 } as const;

export const validate: RowGroup = {
  name: "validate",
  rows: ["validate, default log", "validate, full log"],
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const copy = await stage.copyData(dataDir);
    const core = cores.service;
    const sampled = await stage.serve(dataDir, { cores: core });
    const full = await stage.serve(copy, { cores: core, env: { CLAVIGER_LOG_REQUESTS: "all" } });
    const load = stage.load(cores);
    const job = (warmUpMs: number) =>
      ({
        request: "validate",
        keys: { first: 0, step: 1, count: KEYS },
        order: { kind: "in turn" },
        connections: CONNECTIONS,
        warmUpMs,
        span: { kind: "time", ms: scale.roundMs },
      }) satisfies Partial<LoadJob>;
    for (const server of [sampled, full]) await load.run(server, job(scale.firstWarmUpMs));
    const lineBytes = full.logLineBytes();
    const echo = await stage.echo(core);
    const loggingEcho = await stage.echo(core, lineBytes);
    for (const server of [echo, loggingEcho]) await load.run(server, job(scale.firstWarmUpMs));

    const results = await inTurn(bench, {
      "bare echo": () => load.run(echo, job(scale.warmUpMs)),
      "echo with a line": () => {
        loggingEcho.forgetLog();
        return load.run(loggingEcho, job(scale.warmUpMs));
      },
      "validate, default log": () => load.run(sampled, job(scale.warmUpMs)),
      "validate, full log": () => {
        full.forgetLog();
        return load.run(full, job(scale.warmUpMs));
      },
    });
    await Promise.all([echo, loggingEcho, sampled, full].map((server) => server.stop()));

    const echoes = {
      "validate, default log": { form: "bare echo", does: "" },
      "validate, full log": {
        form: "echo with a line",
        does: ` that writes a line of ${lineBytes} bytes for each request`,
      },
    } as const;
    return (["validate, default log", "validate, full log"] as const).map((name): Row => {
      const answered = results[name];
      const { form, does } = echoes[name];
      const echoed = results[form];
      return toRow({
        name,
        unit: "×",
        better: "more",
        rounds: ratios(perSecond(answered), perSecond(echoed)),
        target: TARGET,
        note:
          `${rateText(answered)} warm, ${toCount(KEYS)} keys in turn, against ${rateText(echoed)} of a bare Hono JSON echo${does}, on ` +
          `the same Bun; ${median(costUs(answered)).toFixed(1)} µs of CPU a request against ` +
          `${median(costUs(echoed)).toFixed(1)}; ${coresText(answered)} (echo: ${coresText(echoed)})`,
        details: { ...detailsOf("validate", answered), ...detailsOf("echo", echoed) },
      });
    });
  },
};
