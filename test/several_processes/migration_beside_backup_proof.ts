/**
 * A migration comes while `claviger backup` reads every table: events go on, and the migration is applied
 * afterwards.
 */
import { beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { type Migration, migrate, migrations } from "../../src/database/mod.ts";
import { startFaultyProxy } from "../support/faulty_proxy.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";

// Runs alone: it judges a time.

const MAIN = join(import.meta.dir, "../../src/main.ts");
/** A migration like the eighth one: an event's statement needs all of these tables. */
const NEXT: Migration = {
  number: migrations.length + 1,
  name: "next",
  text: `
    alter table usage add column noted bigint;
    drop index events_time_key;
    create index events_time_key on events using brin (received_at, key_id uuid_bloom_ops);
    alter table usage_changes set (toast_tuple_target = 4080);`,
};
/** How long events go on after the migration has said that it waits: until it has tried again. */
const WAITING_MS = 1_000;

const folder = useFolder();
const service = useTestService();

beforeAll(async () => {
  // Enough rows that a backup takes a while.
  await service.database.query(
    (sql) => sql`
      insert into events (id, received_at, key_id, license_id, event_type, success)
      select gen_random_uuid(), now() - number * interval '1 ms', gen_random_uuid(), gen_random_uuid(), 'error', true
        from generate_series(1, 200000) as number`,
  );
});
/** Starts a backup and stops its process when it has the locks, so that it keeps them. */
async function startBackup(): Promise<{ end(): Promise<void> }> {
  const proxy = await startFaultyProxy(service.address);
  /** The state of the server process that has the locks; undefined while none has. */
  const findHolder = async () => {
    const [row] = await service.database.query<{ isWaiting: boolean }>(
      (sql) => sql`
        select a.state = 'idle in transaction' or coalesce(a.wait_event = 'ClientWrite', false) as "isWaiting"
          from pg_locks l join pg_stat_activity a using (pid)
         where l.relation = 'events'::regclass and l.mode = 'AccessShareLock' and l.granted
           and l.pid <> pg_backend_pid()`,
    );
    return row;
  };
  for (let tries = 0; tries < 10; tries++) {
    const child = Bun.spawn(
      [process.execPath, MAIN, "backup", join(folder, crypto.randomUUID()), "--env-file", "/dev/null"],
      {
        env: { DATABASE_URL: proxy.address.url, CLAVIGER_SECRET: TEST_SECRET },
        stdout: "ignore",
        stderr: "inherit",
        stdin: "ignore",
      },
    );
    await until(async () => (await findHolder()) !== undefined || child.exitCode !== null);
    child.kill("SIGSTOP");
    // Its server process does what it was told before. If that was the end of the transaction, the stop came too late.
    const holder = await until(async () => {
      const found = await findHolder();
      return found === undefined || found.isWaiting ? { found } : undefined;
    });
    if (holder.found === undefined) {
      child.kill("SIGCONT");
      await child.exited;
      continue;
    }
    return {
      async end() {
        child.kill("SIGCONT");
        expect(await child.exited).toBe(0);
        await proxy.close();
      },
    };
  }
  throw new Error("No backup could be stopped while it had the locks");
}

test("A migration waits for a backup without holding up events, and says once that it waits", async () => {
  const { apiKey } = await service.issue({ tier: "enterprise" });
  const backup = await startBackup();
  const lines: string[] = [];
  const log = createLog({ format: "text", clock: service.clock, write: (line) => void lines.push(line) });
  const known = [...migrations, NEXT];
  const givenUp = migrate(service.address, known, { deadlineMs: 1_000 });
  let isMigrated = false;
  const migrated = givenUp
    .then(() => migrate(service.address, known, { log }))
    .finally(() => {
      isMigrated = true;
    });
  let slowestMs = 0;
  const statuses = new Set<number>();
  let untilMs = performance.now() + 60_000;
  while (performance.now() < untilMs) {
    if (lines.length > 0) untilMs = Math.min(untilMs, performance.now() + WAITING_MS);
    const beganMs = performance.now();
    const { status } = await service.post("/v1/analytics/log", { api_key: apiKey, event_type: "inference" });
    statuses.add(status);
    slowestMs = Math.max(slowestMs, performance.now() - beganMs);
  }
  expect([...statuses]).toEqual([202]);
  expect(slowestMs).toBeLessThan(1_000);
  expect(isMigrated).toBe(false);

  expect(await givenUp).toMatchObject({
    sentence: expect.stringMatching(/used the tables of next for 1 s; wait for it to finish, or end it, and/),
  });
  await backup.end();
  expect(await migrated).toEqual({ applied: [NEXT] });
  expect(lines).toEqual([expect.stringContaining("A migration waits for tables that another process uses")]);
  const { status } = await service.post("/v1/analytics/log", { api_key: apiKey, event_type: "inference" });
  expect(status).toBe(202);
});
