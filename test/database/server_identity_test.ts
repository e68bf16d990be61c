/** Pulse and audit positions on a server that refuses the functions of the write-ahead log, as Aurora does. */
import { expect, test } from "bun:test";
import { followAudit } from "../../src/audit/mod.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { openDatabase } from "../../src/database/mod.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { createLonePulse } from "../support/lone_pulse.ts";

/** Puts a function in place of PostgreSQL's own, for the connections that are opened from now on. */
async function replace({ database }: TestDatabase, signature: string, body: string): Promise<void> {
  await database.query((sql) =>
    sql.unsafe(`do $do$ begin
      create schema if not exists fake;
      create or replace function fake.${signature} language plpgsql as $$ begin ${body}; end $$;
      execute format('alter database %I set search_path = fake, pg_catalog, public', current_database());
    end $do$`),
  );
}

function reopen({ address }: TestDatabase) {
  const database = openDatabase(address, {
    ...{ clock: systemClock, log: silentLog, maxConnections: 1, deadlineMs: 15_000 },
  });
  return { database, [Symbol.asyncDispose]: () => database.close() };
}

async function positionAfter(server: TestDatabase, after?: string) {
  await using opened = reopen(server);
  const part = await followAudit(opened.database, { limit: 10, after });
  return isRefusal(part) ? part.code : part.position;
}

const startedAt = (time: string) =>
  ["pg_postmaster_start_time() returns timestamptz", `return '${time}'::timestamptz`] as const;

for (const code of ["insufficient_privilege", "feature_not_supported"]) {
  test(`A server that refuses the write-ahead log with ${code} has a pulse, and each of its starts makes positions expire`, async () => {
    await using server = await createTestDatabase();
    const refusal = `raise exception 'not supported here' using errcode = '${code}'`;
    await replace(server, "pg_current_wal_lsn() returns pg_lsn", refusal);

    await using opened = reopen(server);
    const { pulse } = createLonePulse(opened.database);
    await pulse.beat();
    expect(pulse.isFresh()).toBe(true);

    const position = await positionAfter(server);
    expect(await positionAfter(server, position)).toBe(position);
    await replace(server, ...startedAt("2026-01-01T00:00:00Z"));
    expect(await positionAfter(server, position)).toBe("CURSOR_EXPIRED");
  });
}

test("On other servers a start makes no position expire", async () => {
  await using server = await createTestDatabase();
  const position = await positionAfter(server);
  await replace(server, ...startedAt("2026-01-01T00:00:00Z"));
  expect(await positionAfter(server, position)).toBe(position);
});

test("A standby has no pulse", async () => {
  await using server = await createTestDatabase();
  await replace(server, "pg_is_in_recovery() returns boolean", "return true");
  await using opened = reopen(server);
  const { pulse } = createLonePulse(opened.database);
  await expect(pulse.beat()).rejects.toThrow("The database does not answer: 55000");
});
