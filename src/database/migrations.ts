/**
 * Applies migrations, which only go forward. Each migration is a file in `sql/`. It is applied once, in order, in a
 * transaction of its own (or statement by statement, see `isConcurrent`), and recorded with the SHA-256 of its text. A
 * database is refused if the text of an applied migration was edited since, or if a newer Claviger migrated it: a wrong
 * guess there could destroy data.
 *
 * So that processes of two versions can serve during an upgrade, migrations expand first, and contract one version
 * later. Each migration records the oldest program that may run on its schema, beside the newer one.
 *
 * Processes that start together take turns with an advisory lock. They wait for it up to a deadline.
 *
 * Other processes may serve during a migration, and a backup may read every table for hours. While a migration waits
 * for the lock of a table, all later statements on that table wait too. So a migration waits briefly, is rolled back,
 * and is tried again with backoff.
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Log, silentLog } from "../base/log.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { checkVersion, tryServer } from "./check_server.ts";
import { type DatabaseSession, openSession } from "./database_session.ts";
import type { DatabaseAddress } from "./database_url.ts";
import { isLockTimeout } from "./errors.ts";
import { readMigrations } from "./read_migrations.ts" with { type: "macro" };
import type { Migration } from "./read_migrations.ts";
import type { Sql } from "./sql.ts";

/** The files of `sql/`, in order, as text inside the program. */
export const migrations: readonly Migration[] = readMigrations();

interface AppliedMigration {
  readonly number: number;
  readonly name: string;
  readonly checksum: string;
  readonly appliedAt: Date;
  /** As in {@linkcode Migration}; null for a migration without it. */
  readonly oldestProgram: number | null;
}

interface MigrationStatus {
  readonly applied: readonly AppliedMigration[];
  readonly pending: readonly Migration[];
  /** True if a process migrates the database now. */
  readonly isRunning?: boolean;
  /** Why this program must not touch the database; undefined when it may. */
  readonly refusal?: Refusal;
}

/** The number of the advisory lock. Any number works, but it must be the same in every release. */
const LOCK_NUMBER = 4_127_551_889;
const LOCK_DEADLINE_MS = 30_000;
const MIGRATION_DEADLINE_MS = 600_000;
/** Short, so that requests that wait behind a migration still meet their own deadline. */
const TABLE_LOCK_MS = 250;
/** A concurrent build of an index waits for the transactions that began before it, and nothing waits for the build. */
const CONCURRENT_LOCK_MS = 60_000;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 15_000;

/** Applies all pending migrations. Refuses a database that this program must not change. */
export async function migrate(
  address: DatabaseAddress,
  migrations: readonly Migration[],
  {
    lockDeadlineMs = LOCK_DEADLINE_MS,
    deadlineMs = MIGRATION_DEADLINE_MS,
    log = silentLog,
  }: { readonly lockDeadlineMs?: number; readonly deadlineMs?: number; readonly log?: Log } = {},
): Promise<{ readonly applied: readonly Migration[] } | Refusal> {
  await using session = openSession(address, { statementTimeoutMs: MIGRATION_DEADLINE_MS });
  const untilMs = performance.now() + deadlineMs;
  await session.connect();
  const refusal = (await checkVersion(session.sql)) ?? (await tryServer(address, session.sql));
  if (refusal !== undefined) return refusal;
  if (!(await takeLock(session, lockDeadlineMs))) {
    return refuse(
      "SERVICE_UNAVAILABLE",
      "Cannot migrate the database: another process has held the migration lock for " +
        `${lockDeadlineMs / 1000} s; wait for it to finish, or end it, and start again`,
    );
  }
  const found = await findTable(session.sql);
  if (isRefusal(found)) return found;
  await session.sql`
      create table if not exists schema_migrations (
        number integer constraint schema_migrations_pkey primary key,
        name text not null,
        checksum text not null,
        applied_at timestamptz not null default now()
      )`;
  const status = compare(await listApplied(session.sql), migrations);
  if (status.refusal !== undefined) return status.refusal;
  for (const migration of status.pending) {
    if (await applyBefore(untilMs, { session, migration, log })) continue;
    return refuse(
      "SERVICE_UNAVAILABLE",
      `Cannot migrate the database: another process, such as a backup, used the tables of ${migration.name} for ` +
        `${deadlineMs / 1000} s; wait for it to finish, or end it, and start again`,
    );
  }
  return { applied: status.pending };
}

/** Applies a migration as soon as its tables can be locked; returns false if that was not possible in time. */
async function applyBefore(
  untilMs: number,
  { session, migration, log }: { session: DatabaseSession; migration: Migration; log: Log },
): Promise<boolean> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    try {
      await apply(session, migration);
      return true;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) return false;
      if (pauseMs === FIRST_PAUSE_MS) {
        log.warn("A migration waits for tables that another process uses, such as a backup", {
          name: migration.name,
        });
      }
      await sleep(Math.min(pauseMs, leftMs));
    }
  }
}

async function apply(session: DatabaseSession, migration: Migration): Promise<void> {
  if (migration.isConcurrent) return await applyConcurrently(session, migration);
  await session.transaction(async (sql) => {
    await sql`select set_config('lock_timeout', ${`${TABLE_LOCK_MS}ms`}, true)`;
    await sql.unsafe(migration.text);
    await recordApplied(sql, migration);
  });
}

async function applyConcurrently({ sql }: DatabaseSession, migration: Migration): Promise<void> {
  await sql`select set_config('lock_timeout', ${`${CONCURRENT_LOCK_MS}ms`}, false)`;
  for (const statement of migration.text.split(/;\n\n/)) await sql.unsafe(statement);
  await recordApplied(sql, migration);
}

async function recordApplied(sql: Sql, migration: Migration): Promise<void> {
  // Here and not at each start: it waits for every reader of the table, such as a backup.
  await sql`alter table schema_migrations add column if not exists oldest_program integer`;
  await sql`
    insert into schema_migrations (number, name, checksum, oldest_program)
    values (${migration.number}, ${migration.name}, ${checksumOf(migration)}, ${migration.oldestProgram ?? null})`;
}

/** Returns the applied and the pending migrations of a database, and whether this program may use it. */
export async function migrationStatus(
  address: DatabaseAddress,
  migrations: readonly Migration[],
): Promise<MigrationStatus> {
  await using session = openSession(address, { statementTimeoutMs: 10_000 });
  await session.connect();
  const refusal = await checkVersion(session.sql);
  if (refusal !== undefined) return { applied: [], pending: migrations, refusal };
  const found = await findTable(session.sql);
  if (isRefusal(found)) return { applied: [], pending: migrations, refusal: found };
  // Before the list: a migration that ends meanwhile leaves nothing pending.
  const isRunning = await isLockTaken(session.sql);
  return { ...compare(found === "ours" ? await listApplied(session.sql) : [], migrations), isRunning };
}

/** Refuses a database that does not have exactly this schema. For one-shot commands, which do not migrate. */
export function checkSchema(status: MigrationStatus): Refusal | undefined {
  if (status.refusal !== undefined) return status.refusal;
  if (status.pending.length === 0) return undefined;
  if (status.isRunning) {
    return refuse("SERVICE_UNAVAILABLE", "The database is being migrated: try again when that is done");
  }
  const have = status.applied.at(-1)?.number ?? 0;
  const want = have + status.pending.length;
  return refuse(
    "INVALID_REQUEST",
    have === 0
      ? "The database is empty: no Claviger has served from it yet; run `claviger serve` or `claviger migrate` first"
      : `The database has schema ${have} and this program needs ${want}: run \`claviger migrate\`, or restart the service with this version`,
  );
}

/** Finds the table schema_migrations. Other migration tools use a table of this name too; never touch theirs. */
async function findTable(sql: Sql): Promise<"ours" | "none" | Refusal> {
  const [table] = await sql<{ found: boolean; columns: number }[]>`
    select to_regclass('schema_migrations') is not null as found,
           (select count(*) from pg_attribute
             where attrelid = to_regclass('schema_migrations') and not attisdropped
               and attname in ('number', 'name', 'checksum', 'applied_at')) as columns`;
  if (!table?.found) return "none";
  if (table.columns === 4) return "ours";
  return refuse(
    "INVALID_REQUEST",
    "Cannot use this database: its table schema_migrations is another program's; make a database for Claviger " +
      "alone, and name that one in DATABASE_URL",
  );
}

/** Returns the SHA-256 of the text of a migration. */
export function checksumOf(migration: Migration): string {
  return createHash("sha256").update(migration.text).digest("hex");
}

async function takeLock(session: DatabaseSession, deadlineMs: number): Promise<boolean> {
  const until = performance.now() + deadlineMs;
  for (;;) {
    const [row] = await session.sql<{ taken: boolean }[]>`
      select pg_try_advisory_lock(${LOCK_NUMBER}) as taken`;
    if (row?.taken) return true;
    if (performance.now() > until) return false;
    await sleep(100);
  }
}

/** Tells whether a process has the lock: each one has it only while it migrates. */
async function isLockTaken(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ taken: boolean }[]>`
    select exists (
      select from pg_locks
       where locktype = 'advisory' and granted and objsubid = 1
         and (classid::bigint << 32) + objid::bigint = ${LOCK_NUMBER}::bigint
         and database = (select oid from pg_database where datname = current_database())) as taken`;
  return row?.taken ?? false;
}

async function listApplied(sql: Sql): Promise<AppliedMigration[]> {
  return await sql<AppliedMigration[]>`
    select number, name, checksum, applied_at as "appliedAt",
           -- An older program made the table without this column.
           (to_jsonb(m) ->> 'oldest_program')::integer as "oldestProgram"
      from schema_migrations m order by number`;
}

function compare(applied: readonly AppliedMigration[], migrations: readonly Migration[]): MigrationStatus {
  const pending = migrations.slice(applied.length);
  const fault = findForeignMigration(applied, migrations);
  if (fault === undefined || runsBeside(applied, migrations)) return { applied, pending };
  const program = fault.isNewer ? "the newer Claviger" : "the Claviger";
  const remedy = `start ${program} that migrated it, or restore a backup from before`;
  const refusal = refuse("INVALID_REQUEST", `Cannot use this database: ${fault.why}; ${remedy}`);
  return { applied, pending, refusal };
}

/** Tells whether a newer program migrated the database, and programs like this one may go on running on its schema. */
function runsBeside(applied: readonly AppliedMigration[], migrations: readonly Migration[]): boolean {
  const newer = applied.slice(migrations.length);
  const newest = migrations.at(-1)?.number ?? 0;
  return (
    findForeignMigration(applied.slice(0, migrations.length), migrations) === undefined &&
    newer.every(({ oldestProgram }) => oldestProgram !== null && oldestProgram <= newest)
  );
}

/** Says why applied migrations are not the first ones of this program, as a phrase; undefined if they are. */
export function findForeignMigration(
  applied: readonly Pick<AppliedMigration, "number" | "name" | "checksum">[],
  migrations: readonly Migration[],
): { readonly why: string; readonly isNewer: boolean } | undefined {
  const last = applied.at(-1)?.number ?? 0;
  const newest = migrations.at(-1)?.number ?? 0;
  if (last > newest) {
    return { why: `it has schema ${last} and this program knows only ${newest}`, isNewer: true };
  }
  const foreign = applied.find(({ number, checksum }, index) => {
    const own = migrations[index];
    return own?.number !== number || checksumOf(own) !== checksum;
  });
  return (
    foreign && {
      why: `its migration ${foreign.number} (${foreign.name}) is not the one inside this program`,
      isNewer: false,
    }
  );
}
