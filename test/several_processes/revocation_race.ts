/**
 * Promise 2: a revoked key is refused after the answer to the revoke; in other processes within a second. Two services
 * in this process share one database and stand for two processes. Only the database connects them, and their
 * common clock orders requests and answers to the millisecond, hundreds or thousands of times. `changes_proof.ts` tests
 * the same with real processes.
 */
import { expect } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";

/** Keys that race at the same time, and parallel validates for each key in each service. */
const WIDTH = 20;
const VALIDATES = 2;
/** After this time another process must refuse the key: a second, by the promise. */
const ELSEWHERE_MS = 1_000;

interface Success {
  readonly beganMs: number;
}

/** Validates until `isOver` returns true; returns the last success. */
async function validateUntil(service: TestService, key: IssuedKey, isOver: () => boolean): Promise<Success> {
  let last: Success = { beganMs: Number.NEGATIVE_INFINITY };
  while (!isOver()) {
    const beganMs = performance.now();
    const { status } = await service.post("/v1/auth/validate", { api_key: key.apiKey });
    if (status === 200) last = { beganMs };
    // 503: on a busy machine the pulse may be late, and then a service does not trust its cache.
    else expect([401, 503]).toContain(status);
  }
  return last;
}

/** Revokes so many keys at one of two services, while clients validate them at both. */
export async function raceRevocations(keys: number): Promise<void> {
  const here = await startTestService();
  const elsewhere = await startTestService({ on: here.testDatabase });
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
    // So that the revocation meets the requests at a different moment in each race.
    await Bun.sleep(Math.random() * 10);
    const status = await until(async () => {
      const answer = await here.post("/v1/auth/revoke", { api_key: key.apiKey, reason: "race" });
      // 503: on a busy machine the pulse may be late, as above.
      return answer.status !== 503 && answer.status;
    });
    answeredMs = performance.now();
    expect(status).toBe(200);
    const [own = []] = await Promise.all(racing);
    for (const { beganMs } of own) {
      if (beganMs > 0) successes++;
      expect(beganMs).toBeLessThan(answeredMs);
    }
    answers.push({ key, answeredMs });
  }

  /** Asks the other service about every revoked key again and again, until it refuses the last one. */
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
      else if (status === 200) latestElsewhereMs = Math.max(latestElsewhereMs, beganMs - next.answeredMs);
    }
  }

  let done = 0;
  const watching = watchElsewhere(() => done >= keys);
  await Promise.all(
    Array.from({ length: WIDTH }, async () => {
      for (; done < keys; done++) await race();
    }),
  );
  await watching;
  expect(successes).toBeGreaterThan(keys / 2);
  expect(latestElsewhereMs).toBeLessThan(ELSEWHERE_MS);
  await elsewhere.close();
  await here.close();
}
