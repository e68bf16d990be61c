/**
 * The generated requests reach every code of the contract, and none makes the operators' API fail. `HOSTILE_SEED` sets
 * the seed, which is printed.
 */
import { expect, test } from "bun:test";
import { sendGenerated } from "./generated_run.ts";
import { sendToOperators } from "./operator_run.ts";

// Takes over a minute.

const REQUESTS = 20_000;
const OPERATOR_REQUESTS = 6_000;
const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));

/** The codes that so many requests get with any seed. A run without one of them did not try it. */
const CODES = [
  "INVALID_FORMAT",
  "INVALID_KEY",
  "INVALID_LINK",
  "INVALID_REQUEST",
  "KEY_EXPIRED",
  "KEY_NOT_FOUND",
  "LICENSE_REQUIRED",
  "MACHINE_LIMIT_REACHED",
  "MACHINE_NOT_FOUND",
  "METHOD_NOT_ALLOWED",
  "MISSING_EVENT_TYPE",
  "MISSING_KEY",
  "NOT_CONFIGURED",
  "NOT_FOUND",
  "OFFLINE_NOT_ALLOWED",
  "PAYLOAD_TOO_LARGE",
  "PRECONDITION_FAILED",
  "QUOTA_EXCEEDED",
  "RANGE_NOT_SATISFIABLE",
  "RATE_LIMIT_EXCEEDED",
  "UNSUPPORTED_MEDIA_TYPE",
];

test("Every generated request gets a documented answer in time, and together they get every code", async () => {
  console.log(`Generated requests: HOSTILE_SEED=${seed}`);
  const { failure, codes, statuses, requests } = await sendGenerated({ requests: REQUESTS, seed });
  // Thrown as an error, whose message keeps its line breaks.
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  expect(requests).toBe(REQUESTS);
  expect(Object.keys(codes).toSorted()).toEqual(CODES);
  for (const status of [200, 202, 206, 304, 422]) expect(statuses[status]).toBeGreaterThan(0);
});

test("Every generated request to the operators' API is answered without a failure", async () => {
  const { failure, secrets } = await sendToOperators({ requests: OPERATOR_REQUESTS, seed });
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);
  expect(secrets.known).toBeGreaterThan(OPERATOR_REQUESTS);
});
