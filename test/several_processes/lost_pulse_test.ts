/**
 * While no pulse reaches one process, that process does not trust its cache, although its other queries still reach
 * the database. The other processes go on.
 */
import { beforeAll, expect, test } from "bun:test";
import { issue } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { createInstallation, type Replica } from "./installation.ts";

/** The pulse comes four times a second. */
const PULSE_MS = 250;
const TRUSTED_MS = 1_000;

const installation = useForAll(createInstallation);
let cutOff: Replica;
let beside: Replica;

beforeAll(async () => {
  [cutOff, beside] = await Promise.all([installation.serve(), installation.serve()]);
});

test("Without a pulse a process answers 503 for cached keys, and the others serve", async () => {
  const kept = await issue(installation.database);
  const validate = (at: Replica, { apiKey } = kept) => at.post("/v1/auth/validate", { api_key: apiKey });
  const log = (at: Replica) =>
    at.post("/v1/analytics/log", { api_key: kept.apiKey, event_type: "inference" });

  let revoked = kept;
  let [shutMs, revokedMs] = [0, 0];
  /** When the last answer from the cache began. */
  let lastOldMs = Number.NEGATIVE_INFINITY;
  // On a busy machine the revoke may take all the time for which the cached key is trusted: then another key is tried.
  while (lastOldMs < revokedMs) {
    cutOff.gate.open();
    await until(async () => (await validate(cutOff)).status === 200);
    revoked = await issue(installation.database);
    // The pulse drops new keys from the cache once more, because their licenses have just changed.
    const cachedMs = performance.now() + 3 * PULSE_MS;
    do {
      for (const replica of [cutOff, beside]) {
        for (const key of [kept, revoked]) expect((await validate(replica, key)).status).toBe(200);
      }
      await Bun.sleep(20);
    } while (performance.now() < cachedMs);

    await cutOff.gate.shut();
    shutMs = performance.now();
    expect((await beside.post("/v1/auth/revoke", { api_key: revoked.apiKey })).status).toBe(200);
    revokedMs = performance.now();
    if ((await validate(cutOff, revoked)).status === 200) lastOldMs = revokedMs;
  }
  let [looks, served] = [0, 0];
  while (performance.now() - shutMs < 2.5 * TRUSTED_MS) {
    looks++;
    const beganMs = performance.now();
    if ((await validate(cutOff, revoked)).status === 200) lastOldMs = beganMs;
    // A new connection and a look-up would succeed: the gate stops only the pulse.
    else if (beganMs - shutMs > TRUSTED_MS) expect((await validate(cutOff)).status).toBe(503);
    // On a busy machine its pulse may be late, too.
    if ((await validate(beside)).status === 200 && (await log(beside)).status === 202) served++;
    expect([401, 503]).toContain((await validate(beside, revoked)).status);
    await Bun.sleep(5);
  }
  expect(served).toBeGreaterThan(looks / 2);
  // The last answer from the cache began within the second for which the cache is trusted.
  expect(lastOldMs - shutMs).toBeLessThan(TRUSTED_MS);
  const fresh = await issue(installation.database);
  expect(await validate(cutOff, fresh)).toMatchObject({
    status: 503,
    body: { code: "SERVICE_UNAVAILABLE" },
  });
  expect((await log(cutOff)).status).toBe(503);
  expect(await cutOff.get("/api/health")).toMatchObject({
    status: 503,
    body: { status: "unhealthy", database: "disconnected" },
  });
  expect(await beside.get("/api/health")).toMatchObject({ status: 200, body: { database: "connected" } });

  cutOff.gate.open();
  await until(async () => (await validate(cutOff)).status === 200);
  expect((await validate(cutOff, revoked)).status).toBe(401);
  expect((await validate(cutOff, fresh)).status).toBe(200);
});
