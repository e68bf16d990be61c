/**
 * A clock of the test in place of the clock that the statements of a database read. It can stand, step and run faster, so
 * that a seat ends without waiting and no row has to be edited. New connections find this function before the one of
 * PostgreSQL, because its schema comes earlier in their search path. The tables stay in the first schema of the path, where
 * the service looks for them.
 */
import type { Database } from "../../src/database/mod.ts";

/** Puts the clock into a database. The connections that are open keep the real clock. */
export async function installDatabaseClock(database: Database): Promise<void> {
  await database.query((sql) =>
    sql.unsafe(`
      create schema test_clock;
      create table test_clock.setting (shown timestamptz not null, real timestamptz not null, speed float8 not null);
      insert into test_clock.setting select now(), now(), 1;
      create function test_clock.clock_timestamp() returns timestamptz language sql volatile as
        'select shown + (pg_catalog.clock_timestamp() - real) * speed from test_clock.setting';
      do $$ begin
        execute format('alter database %I set search_path to public, test_clock, pg_catalog', current_database());
      end $$`),
  );
}

/** Sets the clock; it runs on from there, `speed` times as fast as the real one. It stands with a speed of 0. */
export async function setDatabaseClock(
  database: Database,
  nowMs: number,
  { speed = 1 }: { readonly speed?: number } = {},
): Promise<void> {
  await database.query(
    (sql) => sql`
      update test_clock.setting
         set shown = ${new Date(nowMs)}::timestamptz, real = pg_catalog.clock_timestamp(), speed = ${speed}::float8`,
  );
}

/** Returns the function from times of this machine to times that the database's clock shows, in milliseconds. */
export async function readDatabaseClock(database: Database): Promise<(realMs: number) => number> {
  const [setting] = await database.query<{ shownMs: number; realMs: number; speed: number }>(
    (sql) => sql`
      select (extract(epoch from shown) * 1000)::float8 as "shownMs",
             (extract(epoch from real) * 1000)::float8 as "realMs", speed
        from test_clock.setting`,
  );
  if (setting === undefined) throw new Error("The database has no clock of the test");
  const { shownMs, realMs: beganMs, speed } = setting;
  return (realMs) => shownMs + (realMs - beganMs) * speed;
}
