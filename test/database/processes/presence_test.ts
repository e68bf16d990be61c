/** Each process that serves a database has a row there, which disappears with the process or a day after it. */
import { beforeEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid } from "../../../src/base/ids.ts";
import { createLog } from "../../../src/base/log.ts";
import { VERSION } from "../../../src/base/version.ts";
import { createPresence, isFirstProcess, listProcesses } from "../../../src/database/processes/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { startTestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { useForEach } from "../../support/use.ts";

const server = useForEach(createTestDatabase);
let lines: string[];
beforeEach(() => {
  lines = [];
});

function presenceAt(address: string, uuid = newUuid()) {
  const log = createLog({ format: "text", clock: systemClock, write: (line) => void lines.push(line) });
  const process = { uuid, host: "node-a", address, rateLimits: "shared" } as const;
  const latency = () => ({ p50Ms: 0.6, p95Ms: 12 });
  return createPresence({ address: server.address, process, latency, clock: systemClock, log });
}

const list = () => listProcesses(server.database);
const addresses = async () => (await list()).map(({ address }) => address).toSorted();

/** Makes a row older, as if its process had ended without a stop. */
async function age(address: string, interval: string): Promise<void> {
  await server.database.query(
    (sql) => sql`update processes set seen_at = now() - ${interval}::interval where address = ${address}`,
  );
}

describe("createPresence()", () => {
  test("writes a row with version, host and address, renews it, and removes it at its stop", async () => {
    const presence = presenceAt("http://10.0.0.1:8080");
    await presence.start();
    const [first] = await until(async () => {
      const rows = await list();
      return rows.length === 1 && rows;
    });
    expect(first).toMatchObject({
      version: VERSION,
      host: "node-a",
      address: "http://10.0.0.1:8080",
      rateLimits: "shared",
      p50Ms: 0.6,
      p95Ms: 12,
      isLost: false,
    });
    await age("http://10.0.0.1:8080", "2 minutes");
    await presence.flush();
    const [renewed] = await list();
    expect(renewed?.seenSecondsAgo).toBeLessThan(60);
    expect(renewed?.startedAt).toEqual(first?.startedAt as Date);
    await presence.stop();
    expect(await list()).toEqual([]);
  });

  test("leaves the rows of other processes for a day, and marks them as lost after five minutes", async () => {
    const [a, b, c] = ["http://a:1", "http://b:1", "http://c:1"].map((address) => presenceAt(address));
    await a?.flush();
    await b?.flush();
    await age("http://a:1", "299 seconds");
    await age("http://b:1", "23 hours");
    await c?.flush();
    expect((await list()).map(({ address, isLost }) => [address, isLost])).toEqual([
      ["http://c:1", false],
      ["http://a:1", false],
      ["http://b:1", true],
    ]);
    await age("http://b:1", "24 hours");
    expect(await addresses()).toEqual(["http://a:1", "http://c:1"]);
    await c?.flush();
    const [row] = await server.database.query<{ rows: number }>(
      (sql) => sql`select count(*)::int as rows from processes`,
    );
    expect(row?.rows).toBe(2);
  });

  test("replaces the row of a killed process at the same address before it is lost, and no other", async () => {
    await presenceAt("http://a:1").flush();
    // It was seen in the minute before the restart, and now the next renewal is due.
    await age("http://a:1", "121 seconds");
    await presenceAt("http://b:1").flush();
    expect(await addresses()).toEqual(["http://a:1", "http://b:1"]);
    await presenceAt("http://a:1").flush();
    expect((await list()).map(({ isLost }) => isLost)).toEqual([false, false]);
    // Two processes in containers may have the same name and address.
    await presenceAt("http://a:1").flush();
    expect(await addresses()).toEqual(["http://a:1", "http://a:1", "http://b:1"]);
  });

  test("renews at the same time as other processes, while all of them delete the same rows", async () => {
    for (let n = 0; n < 20; n++) await presenceAt(`http://old:${n}`).flush();
    await server.database.query((sql) => sql`update processes set seen_at = now() - interval '2 days'`);
    await Promise.all(Array.from({ length: 8 }, (_, n) => presenceAt(`http://new:${n}`).flush()));
    expect(await list()).toHaveLength(8);
    expect(lines).toEqual([]);
  });

  test("logs a failure once, and the first success after it", async () => {
    const presence = presenceAt("http://a:1");
    const { database } = server;
    await database.query((sql) => sql`alter table processes rename to away`);
    for (let minute = 0; minute < 3; minute++) await presence.flush();
    expect(lines).toEqual([expect.stringContaining('reason="relation \\"processes\\" does not exist')]);
    await database.query((sql) => sql`alter table away rename to processes`);
    for (let minute = 0; minute < 3; minute++) await presence.flush();
    expect(lines.slice(1)).toEqual([expect.stringContaining("written again")]);
    expect(await list()).toHaveLength(1);
  });
});

test("a service has a row with its address, until it stops", async () => {
  const service = await startTestService({ on: server });
  await until(async () => (await addresses()).includes(service.url));
  expect((await list())[0]).toMatchObject({ p50Ms: null, p95Ms: null });
  await service.close();
  expect(await addresses()).toEqual([]);
});

describe("isFirstProcess()", () => {
  const [first, second] = [newUuid(), newUuid()];
  const looks = async () =>
    await Promise.all([first, second].map((uuid) => isFirstProcess(server.database, uuid)));

  test("is true for the process that began first, and for the next one when it has ended", async () => {
    // Given nobody, such as in the first seconds of a service
    expect(await looks()).toEqual([true, true]);
    const presences = [presenceAt("http://10.0.0.2:8080", second), presenceAt("http://10.0.0.1:8080", first)];
    for (const presence of presences) await presence.start();
    await until(async () => (await list()).length === 2);
    expect(await looks()).toEqual([true, false]);
    // When it was killed
    await age("http://10.0.0.1:8080", "3 minutes");
    expect(await looks()).toEqual([true, true]);
    for (const presence of presences) await presence.stop();
  });

  test("does not wait for a process of another version", async () => {
    const presence = presenceAt("http://10.0.0.1:8080", first);
    await presence.start();
    await until(async () => (await list()).length === 1);
    await server.database.query((sql) => sql`update processes set version = '0.0.1'`);
    expect(await looks()).toEqual([true, true]);
    await presence.stop();
  });
});
