/** Very many lists of models at once, each with megabytes of metadata, do not delay the events of other customers. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isRefusal } from "../../src/base/refusal.ts";
import { addModel, parseNewModel } from "../../src/models/mod.ts";
import { benchKey, writeImportFile } from "../bench/bench_keys.ts";
import type { LoadJob } from "../bench/load_job.ts";
import { createInstallation, type Installation, type Replica } from "../several_processes/installation.ts";
import { ACTOR, BRAND, NOW } from "../support/issue.ts";
import { newModel } from "../support/new_model.ts";
import { shortest } from "../support/shortest.ts";

// Runs alone: it judges a time.

const MODELS = 112;
/** Metadata of nearly 16 KB, the most that a model may have: numbers, because these cost most to read and to render. */
const LARGE_METADATA = { weights: Array.from({ length: 2_300 }, (_, n) => 1_000.5 + n) };
const LISTS = 180;
const MOST_MS = 100;
const LIMIT_MS = 120_000;

let installation: Installation;
let service: Replica;

beforeAll(async () => {
  installation = await createInstallation();
  service = await installation.serve();
  const file = join(tmpdir(), `claviger-model-lists-${process.pid}.jsonl`);
  await writeImportFile(file, 4);
  const { status } = await installation.run(["keys", "import", file]);
  rmSync(file);
  expect(status).toBe(0);
  for (let number = 0; number < MODELS; number++) {
    const model = parseNewModel(newModel({ name: `model_${number}`, metadata: LARGE_METADATA }), BRAND);
    if (isRefusal(model)) throw new Error(model.sentence);
    expect(await addModel(installation.database, model, { actor: ACTOR, now: NOW })).toBeUndefined();
  }
}, LIMIT_MS);
afterAll(() => installation.close());

test(
  `An event waits for at most ${MOST_MS} ms beside ${LISTS} lists of models at once, and every list is answered`,
  async () => {
    expect(await shortest(MOST_MS, longestWait)).toBeLessThan(MOST_MS);
  },
  LIMIT_MS,
);

/** Sends events one after the other while another process fetches the lists with three keys; returns the longest wait. */
async function longestWait(): Promise<number> {
  const { hostname, port } = new URL(service.url);
  const job: LoadJob = {
    host: hostname,
    port: Number(port),
    request: "models",
    keys: { first: 0, step: 1, count: 3 },
    order: { kind: "in turn" },
    connections: LISTS,
    warmUpMs: 0,
    span: { kind: "count", requests: LISTS },
  };
  const load = Bun.spawn([process.execPath, join(import.meta.dir, "../bench/load.ts")], {
    stdin: new Blob([`${JSON.stringify(job)}\n`]),
    stdout: "pipe",
    stderr: "inherit",
  });
  let isOver = false;
  const lists = new Response(load.stdout).json().finally(() => (isOver = true));
  let longestMs = 0;
  while (!isOver) {
    const beganMs = performance.now();
    const event = { api_key: benchKey(3), event_type: "inference" };
    expect((await service.post("/v1/analytics/log", event)).status).toBe(202);
    longestMs = Math.max(longestMs, performance.now() - beganMs);
    await Bun.sleep(1);
  }
  expect(await lists).toMatchObject({ result: { requests: LISTS } });
  return longestMs;
}
