/**
 * A network that forgets idle connections between a service and its database, as firewalls, balancers and poolers
 * do. After each pause an uncached key is validated and an event is sent.
 */
import { expect } from "bun:test";
import { createTestDatabase } from "../../support/database.ts";
import { type Fault, FORGOTTEN_MS, startFaultyProxy } from "../../support/faulty_proxy.ts";
import { startTestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";

/** Expects that no request after a pause is refused, and that no event is counted twice. */
export async function proveIdleConnections(fault: Fault, pauses: number): Promise<void> {
  const testDatabase = await createTestDatabase();
  const proxy = await startFaultyProxy(testDatabase.address);
  const service = await startTestService({ on: { ...testDatabase, address: proxy.address } });
  try {
    proxy.set(fault);
    const known = await service.issue({ monthlyLimit: 1_000 });
    // On a busy machine the pulse may be late, and the first answers are 503.
    await until(
      async () => (await service.post("/v1/auth/validate", { api_key: known.apiKey })).status === 200,
    );
    for (let pause = 1; pause <= pauses; pause++) {
      const fresh = await service.issue();
      // The fault needs this pause: the network forgets a connection that is idle for so long.
      await Bun.sleep(FORGOTTEN_MS + 200);
      const [validated, logged] = await Promise.all([
        service.post("/v1/auth/validate", { api_key: fresh.apiKey }),
        service.post("/v1/analytics/log", { api_key: known.apiKey, event_type: "inference" }),
      ]);
      expect(validated.status).toBe(200);
      expect(logged).toMatchObject({ status: 202, body: { quota: { used: pause } } });
    }
    // A background statement of the service may use the connection in a pause, so not every pause shows the fault.
    expect(proxy.stats().forgotten).toBeGreaterThanOrEqual(pauses / 2);
    const [stored] = await testDatabase.database.query<{ events: number; used: number }>(
      (sql) =>
        sql`select (select count(*) from events) as events, (select sum(used)::bigint from usage) as used`,
    );
    expect(stored).toEqual({ events: pauses, used: pauses });
  } finally {
    await service.close();
    await proxy.close();
    await testDatabase.close();
  }
}
