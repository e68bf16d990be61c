/**
 * A short run of generated requests to the operators' API; `generated_requests_proof.ts` and `make hostile-input` send
 * more. `HOSTILE_SEED` sets the seed, which is printed.
 */
import { expect, test } from "bun:test";
import { sendToOperators } from "./operator_run.ts";

const REQUESTS = 600;
const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));

test("Every generated request is answered without a failure, and no token or key gets into log or tables", async () => {
  console.log(`Generated requests: HOSTILE_SEED=${seed}`);
  const { failure, statuses, secrets } = await sendToOperators({ requests: REQUESTS, seed });
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  const expected = ["200", "201", "400", "401", "404", "405"];
  expect(Object.keys(statuses)).toEqual(expect.arrayContaining(expected));
  expect(secrets.logLines).toBeGreaterThan(REQUESTS / 2);
  expect(secrets.known).toBeGreaterThan(REQUESTS);
  expect(secrets.rows).toBeGreaterThan(REQUESTS);
}, 60_000);
