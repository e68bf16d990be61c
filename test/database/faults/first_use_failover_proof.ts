/**
 * First uses of licenses before, during and after a failover to a standby that lags behind. The history of the server
 * that serves has one start for each license: the start from before, if the standby had received it, and otherwise that
 * of its first use there. Every answer names the end that its server had.
 */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { silentLog } from "../../../src/base/log.ts";
import { type Database, openDatabase, toDatabaseAddress } from "../../../src/database/mod.ts";
import type { IssuedKey } from "../../../src/licensing/keys/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { type FaultyProxy, startFaultyProxy } from "../../support/faulty_proxy.ts";
import { type Replication, startReplication } from "../../support/replication.ts";
import { startTestService, type TestService } from "../../support/service.ts";
import { giveTerm, readTerm } from "../../support/terms.ts";
import { until } from "../../support/until.ts";

const DAYS = 30;
const OF_EACH = 8;
/** So that a later start has another end. Not so long that the caches are dropped for that alone. */
const STEP_MS = 3_000;

let clock: ReturnType<typeof createTestClock>;
let replication: Replication;
let proxies: FaultyProxy[];
let database: Database;
let services: TestService[];

beforeEach(async () => {
  clock = createTestClock();
  replication = await startReplication();
  const { primary, standby } = replication;
  proxies = [await startFaultyProxy(primary), await startFaultyProxy(standby)];
  const places = proxies.map(({ address }) => new URL(address.url).host);
  const address = toDatabaseAddress(`postgres://claviger@${places.join(",")}/postgres`);
  database = openDatabase(address, { clock, log: silentLog, maxConnections: 2 });
  const on = { address, database, close: async () => {} };
  services = [await startTestService({ on, clock }), await startTestService({ on, clock })];
});
afterEach(async () => {
  for (const service of services ?? []) await service.close();
  await database?.close();
  for (const proxy of proxies ?? []) await proxy.close();
  replication?.close();
});

async function issueUnstarted(): Promise<IssuedKey[]> {
  const keys: IssuedKey[] = [];
  for (let index = 0; index < OF_EACH; index++) {
    const key = await (services[0] as TestService).issue();
    await giveTerm(database, key, { days: DAYS, latestStart: new Date(clock.nowMs() + 100 * 86_400_000) });
    keys.push(key);
  }
  return keys;
}

/** Uses each key four times at once, and returns the end that all its accepted answers name; undefined if there is none. */
async function useAll(keys: readonly IssuedKey[]): Promise<(string | undefined)[]> {
  return await Promise.all(
    keys.map(async ({ apiKey }) => {
      const answers = await Promise.all(
        [0, 1, 2, 3].map((index) => services[index % 2]?.post("/v1/auth/validate", { api_key: apiKey })),
      );
      const ends = new Set(
        answers.flatMap((answer) => (answer?.status === 200 ? [answer.body.expires_at] : [])),
      );
      for (const answer of answers) expect([200, 503]).toContain(answer?.status ?? 0);
      expect(ends.size).toBeLessThan(2);
      return [...ends][0];
    }),
  );
}

async function readEnds(keys: readonly IssuedKey[]): Promise<string[]> {
  return await Promise.all(
    keys.map(async (key) => {
      const { startedAt, expiresAt, starts } = await readTerm(database, key);
      expect(starts).toBe(1);
      expect(expiresAt.getTime()).toBe((startedAt?.getTime() ?? 0) + DAYS * 86_400_000);
      return expiresAt.toISOString().replace(".000", "");
    }),
  );
}

test("After a failover each license has one start on the server that serves, and every answer names its end", async () => {
  const { primary, standby } = replication;
  const [kept, lost, unused] = [await issueUnstarted(), await issueUnstarted(), await issueUnstarted()];
  const keptEnds = await useAll(kept);
  expect(await readEnds(kept)).toEqual(keptEnds as string[]);
  await replication.catchUp();
  await replication.part();
  clock.advance(STEP_MS);
  await until(() => services.every(({ service }) => service.directory.isTrusted()));
  const lostEnds = await useAll(lost);
  expect(await readEnds(lost)).toEqual(lostEnds as string[]);

  // Its sessions could answer for a moment after the kill.
  proxies[0]?.set("closing");
  primary.kill();
  expect(await useAll(unused)).toEqual(unused.map(() => undefined));
  await standby.run("select pg_promote()");
  clock.advance(STEP_MS);
  await until(async () => {
    const answers = await Promise.all(
      services.map((service) => service.post("/v1/auth/validate", { api_key: kept[0]?.apiKey })),
    );
    return answers.every(({ status }) => status === 200);
  });

  const all = [...kept, ...lost, ...unused];
  const ends = await useAll(all);
  expect(await readEnds(all)).toEqual(ends as string[]);
  expect(ends.slice(0, OF_EACH)).toEqual(keptEnds);
  for (const [index, end] of lostEnds.entries())
    expect(Date.parse(ends[OF_EACH + index] ?? "")).toBeGreaterThan(Date.parse(end ?? ""));
});
