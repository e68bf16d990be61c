import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  checkSchema,
  type Migration,
  migrate,
  migrationStatus,
  migrations,
  openSession,
  type Sql,
} from "../../src/database/mod.ts";
import { readMigrations } from "../../src/database/read_migrations.ts";
import { createTestDatabase } from "../support/database.ts";
import { createExternalDatabase } from "../support/external_database.ts";
import { startFaultyProxy } from "../support/faulty_proxy.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";

const FIRST: Migration = { number: 1, name: "0001_first", text: "create table first (id integer);" };
const SECOND: Migration = { number: 2, name: "0002_second", text: "alter table first add name text;" };
const BROKEN: Migration = { number: 2, name: "0002_broken", text: "create table half (); select 1 / 0;" };

/** The newest migration of each released version, and the SHA-256 of the texts up to it: they never change again. */
const RELEASED = [
  { version: "0.1.0", newest: 9, sha256: "0e3c48b86e7f9157d5ff41e515ad60fb82c8a4cf468648604b6e52d4e9e73542" },
  {
    version: "0.2.0",
    newest: 22,
    sha256: "3c0c8778129fc8e0da759afed85f51ad1e8444bfac4dfc21f1ac22e8f2691c75",
  },
  {
    version: "0.3.0",
    newest: 24,
    sha256: "d690329b384843bf3e941b2b14ea297af3135853477ee2377c5969f4e85e1656",
  },
];

const server = useForEach(() => createTestDatabase({ empty: true }));

describe("migrate()", () => {
  test("migrate() applies each migration once and in order", async () => {
    expect(await migrate(server.address, [FIRST])).toEqual({ applied: [FIRST] });
    expect(await migrate(server.address, [FIRST, SECOND])).toEqual({ applied: [SECOND] });
    expect(await migrate(server.address, [FIRST, SECOND])).toEqual({ applied: [] });
    expect((await migrationStatus(server.address, [FIRST, SECOND])).applied).toMatchObject([
      { number: 1, name: "0001_first" },
      { number: 2, name: "0002_second" },
    ]);
  });

  test("migrate() applies each migration once when several processes run it at once", async () => {
    const results = await Promise.all(Array.from({ length: 4 }, () => migrate(server.address, migrations)));
    const applied = results.flatMap((result) => ("applied" in result ? result.applied : []));
    expect(applied.map(({ number }) => number)).toEqual(migrations.map(({ number }) => number));
  });

  test("migrate() leaves nothing of a migration that fails", async () => {
    await expect(migrate(server.address, [FIRST, BROKEN])).rejects.toThrow("division by zero");
    expect(await tables()).toEqual(["first", "schema_migrations"]);
    expect(await migrate(server.address, [FIRST, SECOND])).toEqual({ applied: [SECOND] });
  });

  test("migrate() repeats a concurrent migration that was interrupted, from its beginning", async () => {
    const concurrent = { number: 2, name: "0002_concurrent", isConcurrent: true };
    const index = "drop index concurrently if exists i;\n\ncreate index concurrently i on first (id)";
    const half: Migration = { ...concurrent, text: `${index};\n\nselect 1 / 0;\n` };
    const whole: Migration = { ...concurrent, text: `${index};\n` };
    await expect(migrate(server.address, [FIRST, half])).rejects.toThrow("division by zero");
    expect(await migrate(server.address, [FIRST, whole])).toEqual({ applied: [whole] });
    expect(await migrate(server.address, [FIRST, whole])).toEqual({ applied: [] });
  });

  test("migrate() lets others write while a concurrent migration waits for an open transaction", async () => {
    const text = "create index concurrently i on first (id);\n";
    const concurrent: Migration = { number: 2, name: "0002_concurrent", text, isConcurrent: true };
    await migrate(server.address, [FIRST]);
    const insert = (sql: Sql) => sql`insert into first (id) values (1)`;
    let migrated: ReturnType<typeof migrate> | undefined;
    await inTransaction(server.address, async (sql) => {
      await insert(sql);
      migrated = migrate(server.address, [FIRST, concurrent]);
      const isWaiting = async () => {
        const rows = await server.database.query(
          (query) => query`
            select from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock' and query like 'create index%'`,
        );
        return rows.length > 0;
      };
      await until(isWaiting, { what: "the build of the index" });
      await server.database.query(insert, { deadlineMs: 5_000 });
    });
    expect(await migrated).toEqual({ applied: [concurrent] });
  });

  test("migrate() lists the keys that older versions made, in several parts", async () => {
    const before = migrations.filter(({ number }) => number < 17);
    expect(await migrate(server.address, before)).toEqual({ applied: before });
    await server.database.query(
      (sql) => sql`
        with account as (
          insert into accounts (id, email, name, created_at)
          values (gen_random_uuid(), 'ada@example.org', 'Ada', now()) returning id
        ),
        license as (
          insert into licenses (id, account_id, tier, expires_at, created_at)
          select gen_random_uuid(), id, 'free', now(), now() from account returning id
        )
        insert into keys (id, license_id, hash, hint, mode, created_at)
        select gen_random_uuid(), id, sha256(n::text::bytea), 'svc_live_…0000', 'live', now()
          from license, generate_series(1, 12000) as n`,
    );
    expect(await migrate(server.address, migrations)).toEqual({ applied: migrations.slice(before.length) });
    const [row] = await server.database.query<{ keys: number }>(
      (sql) => sql`select count(*) as keys from keys join listed_keys on key_id = id and tier = 'free'`,
    );
    expect(row).toEqual({ keys: 12_000 });
  });

  test("migrate() does not wait for a backup that reads every table, if there is nothing to apply", async () => {
    await migrate(server.address, [FIRST]);
    await inTransaction(server.address, async (sql) => {
      await sql`select from schema_migrations`;
      const migrated = migrate(server.address, [FIRST]);
      expect(await Promise.race([migrated, Bun.sleep(3_000)])).toEqual({ applied: [] });
    });
  });

  test("migrate() refuses a migration that was edited after it was applied", async () => {
    await migrate(server.address, [FIRST]);
    const edited = { ...FIRST, text: `${FIRST.text} ` };
    const refused = await migrate(server.address, [edited, SECOND]);
    expect(refused).toMatchObject({
      sentence: expect.stringContaining("its migration 1 (0001_first) is not the one"),
    });
    expect(await tables()).toEqual(["first", "schema_migrations"]);
  });

  test("migrate() refuses a database that a newer program migrated", async () => {
    await migrate(server.address, [FIRST, SECOND]);
    expect(await migrate(server.address, [FIRST])).toMatchObject({
      sentence: expect.stringMatching(/it has schema 2 and this program knows only 1; start the newer/),
    });
  });

  test("migrate() leaves a database alone whose newer schema allows the program", async () => {
    const expanding = { ...SECOND, oldestProgram: 1 };
    const third = { number: 3, name: "0003_third", text: "create table third ();" };
    await migrate(server.address, [FIRST, expanding]);
    expect(await migrate(server.address, [FIRST])).toEqual({ applied: [] });
    const status = await migrationStatus(server.address, [FIRST]);
    expect(status).toMatchObject({ applied: [{ number: 1 }, { number: 2, oldestProgram: 1 }], pending: [] });
    expect(checkSchema(status)).toBeUndefined();
    const edited = { ...FIRST, text: `${FIRST.text} ` };
    const refused = { code: "INVALID_REQUEST" };
    expect(await migrate(server.address, [edited])).toMatchObject(refused);
    await migrate(server.address, [FIRST, expanding, { ...third, oldestProgram: 2 }]);
    expect(await migrate(server.address, [FIRST])).toMatchObject(refused);
    expect(await migrate(server.address, [FIRST, expanding])).toEqual({ applied: [] });
  });

  test("migrate() refuses a database in which another program owns the table schema_migrations", async () => {
    await server.database.query((sql) => sql`create table schema_migrations (version text primary key)`);
    const sentence = expect.stringContaining("its table schema_migrations is another program's; make");
    expect(await migrate(server.address, [FIRST])).toMatchObject({ sentence });
    expect(await migrationStatus(server.address, [FIRST])).toMatchObject({ refusal: { sentence } });
  });

  test("migrate() refuses a PostgreSQL that is too old", async () => {
    // A function with the same name, earlier in the search path, reports another version.
    const { database } = server.address as { database: string };
    await server.database.query((sql) =>
      sql.unsafe(`do $$ begin
        create schema fake;
        create function fake.current_setting(text) returns text return '140011';
        execute 'alter database ${database} set search_path = fake, pg_catalog, public';
      end $$`),
    );
    const old = { sentence: expect.stringMatching(/version 14 is older than 15; upgrade the server$/) };
    expect(await migrate(server.address, migrations)).toMatchObject(old);
    expect(await migrationStatus(server.address, migrations)).toMatchObject({ refusal: old });
  });

  test.each([
    {
      what: "a pooler in transaction mode",
      fake: "function fake.set_config(text, text, boolean) returns text return $2",
      sentence: "a pooler in transaction mode answers",
    },
    {
      what: "transaction numbers that stay the same",
      fake: "function fake.pg_current_xact_id() returns xid8 return xid8 '7'",
      sentence: "its transaction numbers do not grow",
    },
    {
      what: "the name of CockroachDB",
      fake: "function fake.version() returns text return 'CockroachDB CCL v25.4.1'",
      sentence: "its transaction numbers do not grow",
    },
    {
      what: "a table that Citus distributes",
      fake: "table fake.pg_dist_partition as select 'keys'::text as logicalrelid",
      sentence: "Citus distributes tables of this database",
    },
  ])("migrate() refuses a PostgreSQL with $what, and changes nothing there", async ({ fake, sentence }) => {
    await using external = await createExternalDatabase({ empty: true });
    const { database } = external.address as { database: string };
    await external.database.query((sql) =>
      sql.unsafe(`do $do$ begin
        create schema fake;
        create ${fake};
        execute 'alter database ${database} set search_path = fake, pg_catalog, public';
      end $do$`),
    );
    const refused = await migrate({ url: external.url }, [FIRST]);
    expect(refused).toMatchObject({ sentence: expect.stringContaining(sentence) });
    const [{ found } = {}] = await external.database.query<{ found?: string }>(
      (sql) => sql`select to_regclass('public.schema_migrations') as found`,
    );
    expect(found).toBeNull();
  });

  test("migrate() gives up at its deadline while another process holds the lock", async () => {
    const other = openSession(server.address, { statementTimeoutMs: 1_000 });
    await other.sql`select pg_advisory_lock(4127551889)`;
    const refused = await migrate(server.address, [FIRST], { lockDeadlineMs: 300 });
    expect(refused).toMatchObject({
      sentence: expect.stringContaining("has held the migration lock for 0.3 s"),
    });
    await other.close();
    expect(await migrate(server.address, [FIRST], { lockDeadlineMs: 300 })).toEqual({ applied: [FIRST] });
  });
});

describe("openSession()", () => {
  test.each(["stalled", "closing", "half_open"] as const)(
    "openSession() gives up connecting at its deadline: %s",
    async (fault) => {
      await using proxy = await startFaultyProxy(server.address);
      proxy.set(fault);
      const session = openSession(proxy.address, { statementTimeoutMs: 1_000, connectDeadlineMs: 200 });
      await expect(session.connect()).rejects.toThrow("The database does not answer");
      await session.close();
    },
  );

  test("openSession() fails a transaction whose connection is lost, and stores nothing of it", async () => {
    await using proxy = await startFaultyProxy(server.address);
    const session = openSession(proxy.address, { statementTimeoutMs: 5_000 });
    const running = session.transaction(async (sql) => {
      await sql`create table half ()`;
      setTimeout(() => proxy.set("closing"), 50);
      // The connection works again and the work ignores the error: it must still not run outside the transaction.
      setTimeout(() => proxy.set("none"), 60);
      await sql`select pg_sleep(2)`.catch(() => {});
      await sql`create table whole ()`;
    });
    await expect(running).rejects.toThrow("The database does not answer");
    // The work would run outside the transaction within this time, and must not.
    await Bun.sleep(300);
    await session.close();
    expect(await tables()).toEqual([]);
  });
});

test("migrations contains the unchanged files of sql/, in order", () => {
  const folder = join(import.meta.dir, "../../sql");
  const files = readdirSync(folder).sort();
  expect(migrations.map(({ name }) => `${name}.sql`)).toEqual(files);
  for (const [index, { number, name, text }] of migrations.entries()) {
    expect(number).toBe(index + 1);
    expect(name).toStartWith(`${String(number).padStart(4, "0")}_`);
    expect(text).toBe(readFileSync(join(folder, `${name}.sql`), "utf8"));
  }
});

test("readMigrations() reads from a file which programs may run on its schema", () => {
  const folder = mkdtempSync(join(tmpdir(), "claviger-migrations-"));
  writeFileSync(join(folder, "0002_second.sql"), "-- runs with 1\nalter table first add name text;");
  writeFileSync(join(folder, "0003_third.sql"), "-- This runs with 2.\ndrop table first;");
  expect(readMigrations(folder).map(({ number, oldestProgram }) => ({ number, oldestProgram }))).toEqual([
    { number: 2, oldestProgram: 1 },
    { number: 3, oldestProgram: undefined },
  ]);
  rmSync(folder, { recursive: true });
});

test.each(RELEASED)(
  "No text of a migration of $version has changed since its release",
  ({ newest, sha256 }) => {
    const texts = migrations.filter(({ number }) => number <= newest).map(({ text }) => text);
    expect(hash("sha256", texts.join(""))).toBe(sha256);
  },
);

describe("checkSchema()", () => {
  test("checkSchema() names the command that fills an empty database", async () => {
    expect(checkSchema(await migrationStatus(server.address, [FIRST]))?.sentence).toMatch(
      /^The database is empty: .*run `claviger serve` or `claviger migrate` first$/,
    );
  });

  test("checkSchema() names the command that migrates an older schema", async () => {
    await migrate(server.address, [FIRST]);
    expect(checkSchema(await migrationStatus(server.address, [FIRST, SECOND]))?.sentence).toMatch(
      /^The database has schema 1 and this program needs 2: run `claviger migrate`/,
    );
  });

  test("checkSchema() says that the database is being migrated while a process does so", async () => {
    const check = async () => checkSchema(await migrationStatus(server.address, [FIRST, SECOND]));
    for (const applied of [[], [FIRST]]) {
      await migrate(server.address, applied);
      const other = openSession(server.address, { statementTimeoutMs: 1_000 });
      await other.sql`select pg_advisory_lock(4127551889)`;
      expect(await check()).toMatchObject({
        code: "SERVICE_UNAVAILABLE",
        sentence: "The database is being migrated: try again when that is done",
      });
      await other.close();
      await until(async () => (await check())?.code === "INVALID_REQUEST");
    }
  });

  test("checkSchema() does not wait for a process that migrates another database of the same server", async () => {
    await migrate(server.address, [FIRST]);
    await using elsewhere = await createTestDatabase({ empty: true });
    const other = openSession(elsewhere.address, { statementTimeoutMs: 1_000 });
    await other.sql`select pg_advisory_lock(4127551889)`;
    const status = await migrationStatus(server.address, [FIRST, SECOND]);
    await other.close();
    expect(checkSchema(status)?.code).toBe("INVALID_REQUEST");
  });

  test("checkSchema() refuses a newer schema like migrate(), and accepts the same schema", async () => {
    await migrate(server.address, [FIRST, SECOND]);
    expect(checkSchema(await migrationStatus(server.address, [FIRST]))?.sentence).toContain("knows only 1");
    expect(checkSchema(await migrationStatus(server.address, [FIRST, SECOND]))).toBeUndefined();
  });
});

async function tables(): Promise<string[]> {
  const rows = await server.database.query<{ name: string }>(
    (sql) => sql`select table_name as name from information_schema.tables
                  where table_schema = 'public' order by 1`,
  );
  return rows.map(({ name }) => name);
}
