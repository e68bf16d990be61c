/**
 * A process holds no more memory after very many requests than after many. `make bench ARGS="--only memory"`
 * measures its memory with 20,000 keys at full speed.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeImportFile } from "../bench/bench_keys.ts";
import { generateLoad } from "../bench/generate_load.ts";
import type { RequestKind } from "../bench/load_job.ts";
import { MOST_RESIDENT_MB, residentBytesOf } from "../bench/process_times.ts";
import { createInstallation, type Installation, type Replica } from "../several_processes/installation.ts";

// Takes over a minute.

// Runs alone: it judges the memory of a process under full load.

const KEYS = 1_000;
const CONNECTIONS = 32;
/** The requests of each kind in each round. */
const REQUESTS: Readonly<Partial<Record<RequestKind, number>>> = {
  validate: 30_000,
  refresh: 10_000,
  models: 10_000,
  claimed_event: 10_000,
};
const MEGABYTE = 1e6;
/** The resident memory varies by some 15 MB, so the smallest value of several rounds counts. */
const ROUNDS = 3;
/** 180,000 requests that each keep 120 bytes would exceed this. */
const MOST_GROWTH = 20 * MEGABYTE;
const LIMIT_MS = 360_000;

let installation: Installation;
let service: Replica;

beforeAll(async () => {
  installation = await createInstallation();
  service = await installation.serve();
  const file = join(tmpdir(), `claviger-memory-test-${process.pid}.jsonl`);
  await writeImportFile(file, KEYS);
  const { status } = await installation.run(["keys", "import", file]);
  rmSync(file);
  expect(status).toBe(0);
}, LIMIT_MS);
afterAll(() => installation.close());

test(
  "A process holds no more memory after very many requests than after many",
  async () => {
    // The first requests bring the heap to its size, and have the code compiled.
    await sendAll();
    const many = await mostResidentOfEachRound();
    const veryMany = await mostResidentOfEachRound();

    const resident = Math.min(...veryMany);
    expect(resident - Math.min(...many)).toBeLessThan(MOST_GROWTH);
    expect(resident).toBeLessThan(MOST_RESIDENT_MB * MEGABYTE);
  },
  LIMIT_MS,
);

async function sendAll(): Promise<void> {
  for (const [request, requests] of Object.entries(REQUESTS)) {
    const { hostname: host, port } = new URL(service.url);
    await generateLoad({
      ...{ host, port: Number(port), connections: CONNECTIONS, warmUpMs: 0 },
      ...{ request: request as RequestKind, keys: { first: 0, step: 1, count: KEYS } },
      ...{ order: { kind: "in turn" }, span: { kind: "count", requests } },
    });
  }
}

async function mostResidentOfEachRound(): Promise<number[]> {
  const most: number[] = [];
  while (most.length < ROUNDS) most.push(await mostResidentDuring(sendAll));
  return most;
}

async function mostResidentDuring(work: () => Promise<void>): Promise<number> {
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, residentBytesOf(service.pid));
  }, 50);
  await work();
  clearInterval(timer);
  return most;
}
