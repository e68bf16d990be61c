/**
 * Promise 2: revoked means refused, from the answer on; in other processes within a second. Two services on one
 * database stand for two processes here, both in the test's own: between them is nothing but the database, and
 * one clock tells to the millisecond what was asked after an answer, thousands of times. `changes_test.ts` does
 * it with processes of their own.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { IssuedKey } from "../../src/keys/mod.ts";
import { startTestService, type TestService } from "../support/service.ts";

setDefaultTimeout(30_000);

const KEYS = 2_000;
/** Keys that are raced at the same time, and validates at a time for each, in each service. */
const WIDTH = 20;
const VALIDATES = 2;
/** Beyond this, another process must know: a second by the promise. */
const ELSEWHERE_MS = 1_000;

let here: TestService;
let elsewhere: TestService;

beforeAll(async () => {
  here = await startTestService();
  elsewhere = await startTestService({ on: here.testDatabase });
});
afterAll(async () => {
  await elsewhere.close();
  await here.close();
});

interface Success {
  readonly beganMs: number;
}

/** Validates until `isOver`, and keeps the last success. */
async function validateUntil(service: TestService, key: IssuedKey, isOver: () => boolean): Promise<Success> {
  let last: Success = { beganMs: Number.NEGATIVE_INFINITY };
  while (!isOver()) {
    const beganMs = performance.now();
    const { status } = await service.post("/v1/auth/validate", { api_key: key.apiKey });
    if (status === 200) last = { beganMs };
    else expect(status).toBe(401);
  }
  return last;
}

test(`POST /v1/auth/revoke holds from its answer on, elsewhere within a second: ${KEYS} keys`, async () => {
  let latestElsewhereMs = 0;
  let successes = 0;
  const answers: { key: IssuedKey; answeredMs: number }[] = [];

  async function race(): Promise<void> {
    const key = await here.issue();
    let answeredMs = Number.POSITIVE_INFINITY;
    const isOver = () => performance.now() > answeredMs + 5;
    const racing = [here, elsewhere].map((service) =>
      Promise.all(Array.from({ length: VALIDATES }, () => validateUntil(service, key, isOver))),
    );
    await Bun.sleep(Math.random() * 10);
    const { status } = await here.post("/v1/auth/revoke", { api_key: key.apiKey, reason: "race" });
    answeredMs = performance.now();
    expect(status).toBe(200);
    const [own = []] = await Promise.all(racing);
    for (const { beganMs } of own) {
      if (beganMs > 0) successes++;
      expect(beganMs).toBeLessThan(answeredMs);
    }
    answers.push({ key, answeredMs });
  }

  /** Asks the other service for every revoked key, again and again, until a second after the last. */
  async function watchElsewhere(isOver: () => boolean): Promise<void> {
    for (let index = 0; !isOver() || index < answers.length; ) {
      const next = answers[index];
      if (next === undefined) {
        await Bun.sleep(5);
        continue;
      }
      const beganMs = performance.now();
      const { status } = await elsewhere.post("/v1/auth/validate", { api_key: next.key.apiKey });
      if (status === 401) index++;
      else latestElsewhereMs = Math.max(latestElsewhereMs, beganMs - next.answeredMs);
    }
  }

  let done = 0;
  const watching = watchElsewhere(() => done >= KEYS);
  await Promise.all(
    Array.from({ length: WIDTH }, async () => {
      for (; done < KEYS; done++) await race();
    }),
  );
  await watching;
  expect(successes).toBeGreaterThan(KEYS / 2);
  expect(latestElsewhereMs).toBeLessThan(ELSEWHERE_MS);
}, 90_000);
