/** The answers to clients while the service cannot reach its database, behind a proxy that fails as networks do. */
import { expect, test } from "bun:test";
import { createExternalDatabase } from "../../support/external_database.ts";
import { type JsonResponse, startTestService } from "../../support/service.ts";
import { shortest } from "../../support/shortest.ts";
import { until } from "../../support/until.ts";

const FAULTS = ["stalled", "closing", "half_open"] as const;
/** Promise 6: every answer comes within `ANSWER_MS`, and the service recovers within `RECOVERY_MS`. */
const ANSWER_MS = 5_000;
const RECOVERY_MS = 2_000;

/** Starts a service whose database is behind a proxy, with a key that the service knows. */
async function startBehindProxy() {
  const lost = await createExternalDatabase();
  const service = await startTestService({ on: { ...lost, address: lost.proxy.address } });
  const key = await service.issue();
  const validate = () => service.post("/v1/auth/validate", { api_key: key.apiKey });
  // On a busy machine the pulse may be late, and the first answers are 503.
  await until(async () => (await validate()).status === 200);
  return {
    ...{ lost, service, key, validate },
    event: () => service.post("/v1/analytics/log", { api_key: key.apiKey, event_type: "inference" }),
    health: () => service.get("/api/health"),
    async [Symbol.asyncDispose]() {
      await service.close();
      await lost.close();
    },
  };
}

async function timed(asked: Promise<JsonResponse>): Promise<JsonResponse & { tookMs: number }> {
  const began = performance.now();
  return { ...(await asked), tookMs: performance.now() - began };
}

async function untilAnswered(ask: () => Promise<JsonResponse>): Promise<number> {
  const began = performance.now();
  await until(async () => (await ask()).status < 500, { what: "the service answers again" });
  return performance.now() - began;
}

test.concurrent.each(FAULTS)(
  "While the database is lost (%s) the service answers 503 with Retry-After to every key, also to a cached key after a second",
  async (fault) => {
    await using behind = await startBehindProxy();
    const { lost, service, validate, event, health } = behind;
    lost.proxy.set(fault);
    // A cached key is trusted for a second.
    await Bun.sleep(1_050);
    const other = "svc_live_".padEnd(57, "0");
    const unknown = service.post("/v1/auth/validate", { api_key: other });
    for (const answer of await Promise.all([validate(), event(), unknown].map(timed))) {
      expect(answer).toMatchObject({ status: 503, body: { code: "SERVICE_UNAVAILABLE" } });
      expect(answer.headers.get("retry-after")).toBe("1");
      expect(answer.tookMs).toBeLessThan(ANSWER_MS);
    }
    expect(await health()).toMatchObject({
      status: 503,
      body: { status: "unhealthy", database: "disconnected" },
    });
    lost.proxy.set("none");
  },
);

test.concurrent.each(FAULTS)(
  "While the database is lost (%s) every request is answered in time, and the service recovers within 2 s of the fault's end",
  async (fault) => {
    await using behind = await startBehindProxy();
    const { lost, service, validate, event, health } = behind;
    const recover = async () => {
      lost.proxy.set(fault);
      const began = performance.now();
      while (performance.now() - began < 1_500) {
        const fresh = service.post("/v1/auth/validate", {
          api_key: `svc_test_${crypto.randomUUID()}`.padEnd(57, "0"),
        });
        const asked = [validate(), event(), fresh, health()];
        for (const { status, tookMs } of await Promise.all(asked.map(timed))) {
          expect([200, 202, 400, 401, 503]).toContain(status);
          expect(tookMs).toBeLessThan(ANSWER_MS);
        }
      }
      lost.proxy.set("none");
      return Math.max(await untilAnswered(validate), await untilAnswered(event));
    };
    expect(await shortest(RECOVERY_MS, recover)).toBeLessThan(RECOVERY_MS);
    expect(await health()).toMatchObject({ status: 200, body: { database: "connected" } });
  },
);

test.concurrent("A key that was suspended while the service had lost its database is refused after the recovery", async () => {
  await using behind = await startBehindProxy();
  const { lost, key, validate } = behind;
  lost.proxy.set("stalled");
  await lost.database.query(
    (sql) => sql`update keys set state = 'suspended' where license_id = ${key.licenseUuid}::uuid`,
  );
  await until(async () => (await validate()).status === 503);
  lost.proxy.set("none");
  await until(async () => {
    const { status } = await validate();
    expect([401, 503]).toContain(status);
    return status === 401;
  });
});
