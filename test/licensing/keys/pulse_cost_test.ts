/** The pulse reads no more rows among many keys than among few, whatever statistics the planner has. */
import { beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { openDatabase } from "../../../src/database/mod.ts";
import { createLonePulse } from "../../support/lone_pulse.ts";
import { until } from "../../support/until.ts";
import { useForAll, useTestDatabase } from "../../support/use.ts";

const KEYS = 20_000;
/** More than five executions, after which PostgreSQL may choose a generic plan. */
const BEATS = 12;

const server = useTestDatabase();
/** It has one connection, so that the statistics come from the connection that ran the statements. */
const database = useForAll(async () =>
  openDatabase(server.address, {
    clock: systemClock,
    log: silentLog,
    maxConnections: 1,
    // Filling the tables takes long on a busy machine, and is not measured.
    deadlineMs: 60_000,
  }),
);

beforeAll(async () => {
  // This is the state after an import: the planner has no statistics yet.
  for (const table of ["accounts", "licenses", "keys"]) {
    await database.query((sql) => sql`alter table ${sql(table)} set (autovacuum_enabled = false)`);
  }
  await database.query(
    (sql) => sql`
      with number as (select number, gen_random_uuid() as account, gen_random_uuid() as license
                        from generate_series(1, ${KEYS}::int) as number),
      account as (insert into accounts (id, email, name, created_at)
                  select account, number || '@example.org', 'Many', now() from number),
      license as (insert into licenses (id, account_id, tier, expires_at, created_at)
                  select license, account, 'free', now(), now() from number)
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select gen_random_uuid(), license, sha256(number::text::bytea), '', 'live', now() from number`,
  );
  // While a transaction of another test is open that began before, each pulse reads these rows again.
  await until(async () => {
    const newer = await database.query(
      (sql) => sql`select from keys where changed_xid >= pg_snapshot_xmin(pg_current_snapshot()) limit 1`,
    );
    return newer.length === 0;
  });
}, 120_000);

describe("createPulse()", () => {
  test("createPulse() reads no whole table, even before the planner has statistics", async () => {
    const { pulse } = createLonePulse(database);
    await pulse.beat();
    const before = await rowsRead();

    for (let beat = 0; beat < BEATS; beat++) await pulse.beat();

    expect(await rowsRead()).toBe(before);
  });
});

/** Returns the number of rows read by any scan. A scan of a whole table adds 20,000. */
async function rowsRead(): Promise<number> {
  await database.query((sql) => sql`select pg_stat_force_next_flush()`);
  const [row] = await database.query<{ rows: number; tables: number }>(
    (sql) => sql`
      select sum(seq_tup_read + idx_tup_fetch)::int as rows,
             count(*)::int as tables
        from pg_stat_user_tables where relname in ('accounts', 'licenses', 'keys')`,
  );
  expect(row?.tables).toBe(3);
  return row?.rows ?? Number.NaN;
}
