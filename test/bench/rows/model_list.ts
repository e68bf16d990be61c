/** Measures the list of models with large metadata: how many lists a second, and what each costs in CPU time. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { coresText, costUs, detailsOf, partUs, perSecond } from "../measures.ts";
import { toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import type { Stage } from "../stage.ts";
import { median } from "../statistics.ts";

const KEYS = 1_000;
/** Few, so that no list waits for so long that it gets a 503, which would end the load. */
const CONNECTIONS = 8;
const NAME = "model lists, large";

/** The models of this row. */
export const MODELS = 112;
/** Metadata of nearly 16 KB, the most that a model may have: numbers, because these cost most to read and to render. */
export const LARGE_METADATA = { weights: Array.from({ length: 2_300 }, (_, n) => 1_000.5 + n) };

export const modelList: RowGroup = {
  name: "model list",
  rows: [NAME],
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const env = { CLAVIGER_ADMIN_LISTEN: "127.0.0.1:0" };
    const service = await stage.serve(dataDir, { cores: cores.service, env });
    await addModels(stage, dataDir);
    const load = stage.load(cores);
    const run = (warmUpMs: number) =>
      load.run(service, {
        request: "models",
        keys: { first: 0, step: 1, count: KEYS },
        order: { kind: "in turn" },
        connections: CONNECTIONS,
        warmUpMs,
        span: { kind: "time", ms: scale.roundMs },
      });
    await run(scale.firstWarmUpMs);
    const { [NAME]: lists } = await inTurn(bench, { [NAME]: () => run(scale.warmUpMs) });
    await service.stop();
    const text = (figures: readonly number[]) => (median(figures) / 1_000).toFixed(1);
    return [
      toRow({
        name: NAME,
        unit: "/s",
        better: "more",
        rounds: perSecond(lists),
        note:
          `${MODELS} models with 16 KB of metadata; ${text(costUs(lists))} ms of CPU for each: ` +
          `${text(partUs(lists, "serviceCpu"))} in the service, ${text(partUs(lists, "databaseCpu"))} in PostgreSQL; ` +
          coresText(lists),
        details: detailsOf("model list", lists),
      }),
    ];
  },
};

/** Adds the models over the API for operators. */
async function addModels(stage: Stage, dataDir: string): Promise<void> {
  const issue = ["tokens", "issue", "--name", "bench", "--scope", "models:write", "--data-dir", dataDir];
  const token = /\bsvc_op_[0-9a-f]{48}\b/.exec(await stage.command(issue))?.[0];
  const { admin } = JSON.parse(readFileSync(join(dataDir, "serving"), "utf8"));
  for (let number = 0; number < MODELS; number++) {
    const model = {
      name: `large_${number}`,
      version: "1.0.0",
      type: "SvcLDA",
      paradigm: "p300",
      n_features: 64,
      n_classes: 4,
      size_mb: 3.8,
      url: `https://models.example/${number}`,
      checksum: "0".repeat(64),
      requires_license: "free",
      metadata: LARGE_METADATA,
    };
    const { status } = await fetch(`http://${admin.host}:${admin.port}/admin/v1/models`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(model),
    });
    if (status !== 201) throw new Error(`A model was answered with ${status}`);
  }
}
