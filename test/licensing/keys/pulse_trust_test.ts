/** How a pulse starts and stops, and how long it trusts the cache, with answers that are late or lost. */
import { describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { type Database, openDatabase } from "../../../src/database/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { startFaultyProxy } from "../../support/faulty_proxy.ts";
import { createLonePulse } from "../../support/lone_pulse.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();

describe("createPulse()", () => {
  test("createPulse() does not repeat the pulse when it is stopped during its start", async () => {
    const database = openDatabase(server.address, { clock: systemClock, log: silentLog, maxConnections: 1 });
    const [stopped, later] = [createLonePulse(database).pulse, createLonePulse(database).pulse];
    const started = stopped.start();
    await stopped.stop();
    await started;

    await later.start();
    await until(() => later.stats().beats > 2);
    expect(stopped.stats()).toMatchObject({ beats: 1 });
    await later.stop();
    await database.close();
  });

  test("createPulse() starts though the first answer is late, and not if no answer comes", async () => {
    const proxy = await startFaultyProxy(server.address);
    const database = openDatabase(proxy.address, { clock: systemClock, log: silentLog });
    const { pulse } = createLonePulse(database);
    proxy.set("stalled");
    await expect(pulse.start()).rejects.toMatchObject({ code: "deadline" });
    const missed = database.stats().deadlinesMissed;
    await Promise.all([
      pulse.start(),
      until(() => database.stats().deadlinesMissed > missed).then(() => proxy.set("none")),
    ]);
    expect(pulse.isFresh()).toBe(true);
    await pulse.stop();
    await database.close();
    await proxy.close();
  });

  test("createPulse() trusts the cache for a second from when it asked, however late the answer comes", async () => {
    const clock = createTestClock(undefined, { stands: true });
    const query: Database["query"] = async (build, options) => {
      const rows = await server.database.query(build, options);
      clock.advance(400);
      return rows;
    };
    const { pulse } = createLonePulse({ ...server.database, query }, clock);
    await pulse.beat();
    clock.advance(599);
    expect(pulse.isFresh()).toBe(true);
    clock.advance(1);
    expect(pulse.isFresh()).toBe(false);
  });

  test("createPulse() stays fresh when one of its statements is never answered", async () => {
    const proxy = await startFaultyProxy(server.address);
    const database = openDatabase(proxy.address, { clock: systemClock, log: silentLog });
    const clock = createTestClock(undefined, { stands: true });
    const { pulse } = createLonePulse(database, clock);
    await pulse.start();
    try {
      proxy.set("half_open");
      await until(() => proxy.stats().lost > 0);
      proxy.set("none");
      // The lost pulse began this long after the last good one.
      clock.advance(250);
      for (let stepMs = 0, ms = 0; ms < 1_500; ms += stepMs) {
        const beganMs = performance.now();
        await Promise.all([Bun.sleep(10), server.database.query((sql) => sql`select 1`)]);
        // The pulse's clock goes slower while the machine or the database is busy.
        stepMs = Math.min(20, performance.now() - beganMs);
        clock.advance(stepMs);
        expect(pulse.isFresh()).toBe(true);
      }
      expect(pulse.stats().failures).toBeGreaterThan(0);
    } finally {
      await pulse.stop();
      await database.close();
      await proxy.close();
    }
  });
});
