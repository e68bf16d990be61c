/**
 * A short run of the generated requests; `generated_requests_proof.ts` awaits every code, and the long run is
 * `make hostile-input`. `HOSTILE_SEED` sets the seed, which is printed.
 */
import { expect, test } from "bun:test";
import { sendGenerated } from "./generated_run.ts";
import { sendGeneratedWithMinting } from "./minting_run.ts";
import { sendToOperators } from "./operator_run.ts";

const REQUESTS = 2_000;
const MINTING_REQUESTS = 300;
const OPERATOR_REQUESTS = 600;
const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`Generated requests: HOSTILE_SEED=${seed}`);

test("Every generated request gets a documented answer in time, and no refused request changes a row", async () => {
  const { failure, statuses, requests, secrets } = await sendGenerated({ requests: REQUESTS, seed });
  // Thrown as an error, whose message keeps its line breaks.
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  expect(requests).toBe(REQUESTS);
  for (const status of [200, 202]) expect(statuses[status]).toBeGreaterThan(0);
  expect(secrets.logLines).toBeGreaterThan(REQUESTS / 2);
  expect(secrets.rows).toBeGreaterThan(REQUESTS / 4);
  expect(secrets.processes).toBeGreaterThan(5);
}, 120_000);

test("Every generated request gets a documented answer with tokens of a GitHub App, and none shows its secrets", async () => {
  const { failure, statuses, secrets } = await sendGeneratedWithMinting({ requests: MINTING_REQUESTS, seed });
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  expect(statuses[200]).toBeGreaterThan(0);
  expect(secrets.known).toBeGreaterThan(100);
}, 60_000);

test("Every generated request to the operators' API is answered without a failure, and no token or key gets into log or tables", async () => {
  const { failure, statuses, secrets } = await sendToOperators({ requests: OPERATOR_REQUESTS, seed });
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  const expected = ["200", "201", "400", "401", "404", "405"];
  expect(Object.keys(statuses)).toEqual(expect.arrayContaining(expected));
  expect(secrets.logLines).toBeGreaterThan(OPERATOR_REQUESTS / 2);
  expect(secrets.known).toBeGreaterThan(OPERATOR_REQUESTS);
  expect(secrets.rows).toBeGreaterThan(OPERATOR_REQUESTS);
}, 60_000);
