/** Measures the list of models with large metadata: how many lists a second, and what each costs in CPU time. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { oneRequest } from "../one_request.ts";
import type { Stage } from "../stage.ts";

/** The models of this row. */
export const MODELS = 112;
/** Metadata of nearly 16 KB, the most that a model may have: numbers, because these cost most to read and to render. */
export const LARGE_METADATA = { weights: Array.from({ length: 2_300 }, (_, n) => 1_000.5 + n) };

export const modelList = oneRequest({
  group: "model list",
  name: "model lists, large",
  request: "models",
  keys: 1_000,
  // Few, so that no list waits for so long that it gets a 503, which would end the load.
  connections: 8,
  what: `${MODELS} models with 16 KB of metadata`,
  unit: "ms",
  env: { CLAVIGER_ADMIN_LISTEN: "127.0.0.1:0" },
  prepare: ({ stage }, dataDir) => addModels(stage, dataDir),
});

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
