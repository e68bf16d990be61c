/**
 * A short run of the generated requests; the long run is `make hostile-input`. `HOSTILE_SEED` sets the seed, which is
 * printed.
 */
import { expect, test } from "bun:test";
import { sendGenerated } from "./generated_run.ts";
import { sendGeneratedWithMinting } from "./minting_run.ts";

const REQUESTS = 4_000;
const MINTING_REQUESTS = 300;
const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));

/** The codes that so many requests get with any seed; `generated_requests_proof.ts` awaits every code. */
const CODES = [
  "INVALID_FORMAT",
  "INVALID_KEY",
  "INVALID_REQUEST",
  "METHOD_NOT_ALLOWED",
  "MISSING_KEY",
  "NOT_CONFIGURED",
  "NOT_FOUND",
  "OFFLINE_NOT_ALLOWED",
];

test("Every generated request gets a documented answer in time, and no refused request changes a row", async () => {
  console.log(`Generated requests: HOSTILE_SEED=${seed}`);
  const { failure, codes, statuses, requests, secrets } = await sendGenerated({ requests: REQUESTS, seed });
  // Thrown as an error, whose message keeps its line breaks.
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  expect(requests).toBe(REQUESTS);
  expect(Object.keys(codes)).toEqual(expect.arrayContaining(CODES));
  for (const status of [200, 202]) expect(statuses[status]).toBeGreaterThan(0);
  expect(secrets.logLines).toBeGreaterThan(REQUESTS / 2);
  expect(secrets.rows).toBeGreaterThan(1_000);
  expect(secrets.processes).toBeGreaterThan(5);
}, 120_000);

test("Every generated request gets a documented answer with tokens of a GitHub App, and none shows its secrets", async () => {
  const { failure, statuses, secrets } = await sendGeneratedWithMinting({ requests: MINTING_REQUESTS, seed });
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  expect(statuses[200]).toBeGreaterThan(0);
  expect(secrets.known).toBeGreaterThan(100);
}, 60_000);
