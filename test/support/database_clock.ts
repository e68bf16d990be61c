/**
 * A clock of the test in place of the clock that the statements of a database read. It can stand, step and run faster, so
 * that a seat ends without waiting and no row has to be edited. The database finds this function before the one of
 * PostgreSQL, because its schema comes first in the search path of every new connection.
 */
import type { Database, DatabaseAddress } from "../../src/database/mod.ts";
import { inTransaction } from "./in_transaction.ts";

export interface DatabaseClock {
  /** Sets the clock; it runs on from there, `speed` times as fast as the real one. It stands with a speed of 0. */
  set(nowMs: number, options?: { readonly speed?: number }): Promise<void>;
}

/** Puts the clock into a database that has no connection yet, or whose connections are made again afterwards. */
export async function installDatabaseClock(
  address: DatabaseAddress,
  database: Database,
): Promise<DatabaseClock> {
  await inTransaction(address, async (sql) => {
    await sql.unsafe(`
      create schema test_clock;
      create table test_clock.setting (shown timestamptz not null, real timestamptz not null, speed float8 not null);
      insert into test_clock.setting select now(), now(), 1;
      create function test_clock.clock_timestamp() returns timestamptz language sql volatile as
        'select shown + (pg_catalog.clock_timestamp() - real) * speed from test_clock.setting';
      grant usage on schema test_clock to public;
      grant select on test_clock.setting to public;
      do $$ begin
        execute format('alter database %I set search_path to test_clock, pg_catalog, public', current_database());
      end $$`);
  });
  return {
    async set(nowMs, { speed = 1 } = {}) {
      await database.query(
        (sql) => sql`
          update test_clock.setting
             set shown = ${new Date(nowMs)}::timestamptz, real = pg_catalog.clock_timestamp(),
                 speed = ${speed}::float8`,
      );
    },
  };
}
