/**
 * Behind Patroni with a synchronous standby: switchovers and killed primaries under load lose no acknowledged event and
 * store none twice, a revoked key is refused within a second of the new primary's first answer, and no answer is late.
 */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { openDatabase, toDatabaseAddress } from "../../src/database/mod.ts";
import { startTestService } from "../support/service.ts";
import { expectStoredOnce } from "./expect_stored_once.ts";
import { missingForPatroni, startPatroni } from "./patroni.ts";

// Takes over a minute.

const ROUNDS = 5;
const CLIENTS = 6;
const LATEST_MS = 5_000;
const REFUSED_MS = 1_000;
const missing = missingForPatroni();
if (missing !== undefined) console.warn(`No ${missing} on this machine: Patroni is not tried`);

/** Both have a cluster and a service of their own, and run at the same time, because they mostly wait. */
test.skipIf(missing !== undefined).concurrent.each(["switchovers", "kills of the primary"] as const)(
  "Nothing is lost through five %s under Patroni",
  async (kind) => {
    await using ends = new AsyncDisposableStack();
    const cluster = await startPatroni();
    ends.defer(() => cluster.close());
    const address = toDatabaseAddress(cluster.url);
    const database = openDatabase(address, { clock: systemClock, log: silentLog, maxConnections: 2 });
    ends.use(database);
    const on = { address, database, close: async () => {} };
    const service = await startTestService({ on });
    ends.defer(() => service.close());
    const other = await startTestService({ on });
    ends.defer(() => other.close());
    const { apiKey } = await service.issue({ monthlyLimit: 1_000_000 });
    const acknowledged = new Set<string>();
    let [slowestMs, unavailable, isStopped] = [0, 0, false];
    let unavailableMs = 0;
    const client = async (name: number) => {
      for (let number = 0; !isStopped; number++) {
        const claim = `${name}-${number}`;
        for (let status = 0; status !== 202 && !isStopped; ) {
          const beganMs = performance.now();
          const headers = { "Idempotency-Key": claim };
          const event = { api_key: apiKey, event_type: "inference", metadata: { claim } };
          ({ status } = await service.post("/v1/analytics/log", event, headers));
          const tookMs = performance.now() - beganMs;
          slowestMs = Math.max(slowestMs, tookMs);
          if (status === 202) acknowledged.add(claim);
          else {
            expect(status).toBe(503);
            unavailable++;
            await Bun.sleep(20);
            if (name === 0) unavailableMs += performance.now() - beganMs;
          }
        }
      }
    };
    const running = Promise.all(Array.from({ length: CLIENTS }, (_, name) => client(name)));
    running.catch(() => {});
    ends.defer(async () => {
      isStopped = true;
      await running;
    });
    for (let round = 0; round < ROUNDS; round++) {
      const revoked = await service.issue();
      // Asked at another service, whose cache of keys only the database can tell of the revocation.
      const validate = () => other.post("/v1/auth/validate", { api_key: revoked.apiKey });
      expect((await validate()).status).toBe(200);
      const before = await cluster.primary();
      const changing = kind === "switchovers" ? cluster.switchover() : cluster.killPostgres("primary");
      changing.catch(() => {});
      expect((await service.post("/v1/auth/revoke", { api_key: revoked.apiKey })).status).toBeOneOf([
        200, 503,
      ]);
      let answeredMs = Number.POSITIVE_INFINITY;
      while ([undefined, before].includes(await cluster.primary())) await Bun.sleep(20);
      // The outcome of the first revocation may be unknown.
      for (let status = 0; status !== 200 && status !== 404; ) {
        ({ status } = await service.post("/v1/auth/revoke", { api_key: revoked.apiKey }));
        answeredMs = performance.now();
        if (status === 503) await Bun.sleep(20);
      }
      while (performance.now() < answeredMs + REFUSED_MS) await Bun.sleep(20);
      for (let ask = 0; ask < 5; ask++) expect((await validate()).status).toBeOneOf([401, 503]);
      await changing;
      await cluster.untilWhole();
    }
    isStopped = true;
    await running;

    console.log(
      `Patroni, ${kind}: ${acknowledged.size} events, ${unavailable} answers 503, ${Math.round(unavailableMs)} ms ` +
        `of them at one client, slowest answer ${Math.round(slowestMs)} ms`,
    );
    expect(slowestMs).toBeLessThan(LATEST_MS);
    await expectStoredOnce(database, acknowledged);
  },
);
