/**
 * A migration comes while `claviger backup` reads every table: events go on, and the migration is applied
 * afterwards.
 */
import { beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type Migration, migrate, migrations } from "../../src/database/mod.ts";
import { createLog } from "../../src/log.ts";
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
/** Starts a backup and stops its process when it has the locks. */
async function startBackup(): Promise<{ end(): Promise<void> }> {
  const proxy = await startFaultyProxy(service.address);
  const file = join(folder, crypto.randomUUID());
  const child = Bun.spawn([process.execPath, MAIN, "backup", file, "--env-file", "/dev/null"], {
    env: { DATABASE_URL: proxy.address.url, CLAVIGER_SECRET: TEST_SECRET },
    stdout: "ignore",
    stderr: "inherit",
    stdin: "ignore",
  });
  const isLocked = async () => {
    const [row] = await service.database.query<{ locks: number }>(
      (sql) => sql`
        select count(*) as locks from pg_locks
         where relation = 'events'::regclass and mode = 'AccessShareLock' and granted and pid <> pg_backend_pid()`,
    );
    return row?.locks === 1;
  };
  await until(isLocked);
  child.kill("SIGSTOP");
  expect(await isLocked()).toBe(true);
  return {
    async end() {
      child.kill("SIGCONT");
      expect(await child.exited).toBe(0);
      await proxy.close();
    },
  };
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
  let untilMs = Number.POSITIVE_INFINITY;
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
