/**
 * Restores a backup into an empty database: migrates it to the backup's schema, loads everything in one transaction,
 * reads it back and compares it, disables the tokens, commits, and then migrates to the newest schema.
 *
 * The file was read completely before ({@linkcode ProvenBackup}), so a damaged file is refused before the database
 * changes. While it is loaded, it is compared with its sums again.
 */
import { dirname } from "node:path";
import { type Actor, auditCte } from "../../audit/mod.ts";
import { monthOf } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { NO_RESTORE_NOTE, type RestoreNote } from "../../database/embedded/mod.ts";
import {
  copyIn,
  type DatabaseAddress,
  findForeignMigration,
  type Migration,
  migrate,
  migrationStatus,
  openSession,
  type Sql,
} from "../../database/mod.ts";
import { restoreMachines } from "../../licensing/machines/mod.ts";
import {
  listCopies,
  type ModelsPlace,
  modelsFolderOf,
  type StoredFile,
  storeBytes,
} from "../../models/mod.ts";
import { disableTokens } from "../../operators/mod.ts";
import { attachPartition } from "../../usage/mod.ts";
import { sumTable } from "./_content.ts";
import { BackupFailure } from "./_errors.ts";
import { explain } from "./_files.ts";
import { readProven } from "./_save_models.ts";
import {
  deleteFilled,
  findContents,
  quoted,
  renderCopyIn,
  setCopySettings,
  tableNamesOf,
} from "./_tables.ts";
import { inTransaction } from "./_transaction.ts";
import { type BackedUpTable, modelName, type Sums } from "./format.ts";
import type { Watch } from "./progress.ts";
import { type ProvenBackup, readBackup, toRefusal } from "./read_backup.ts";

export interface RestoreOptions {
  readonly proven: ProvenBackup;
  readonly migrations: readonly Migration[];
  /** Leaves out the rows that the backup's secret sealed, because that secret is lost. */
  readonly withoutSealed: boolean;
  /** Where the model files go. */
  readonly models: ModelsPlace;
  /** The place of the database, as text for messages. */
  readonly place: string;
  /** Whether it is the operator's own server: a data folder then changes nothing. */
  readonly isExternal: boolean;
  /** The note that a restore has begun: nobody takes what an interrupted one leaves for a whole database. */
  readonly note?: RestoreNote;
  readonly actor: Actor;
  readonly clock: Clock;
  /** How long to wait while another process locks a table; 30 s by default. */
  readonly lockWaitMs?: number;
  readonly watch: Watch;
  /** Called after everything is loaded and compared, before the commit. If it throws, everything is rolled back. */
  readonly beforeCommit: () => void;
}

/** Returns the refusal of a backup whose schema is not among this program's migrations; undefined if it is. */
export function checkBackupSchema(
  { name, head }: ProvenBackup,
  migrations: readonly Migration[],
): string | undefined {
  const foreign = findForeignMigration(head.migrations, migrations);
  if (foreign === undefined) return undefined;
  const program = `Claviger ${head.claviger}${foreign.isNewer ? " or newer" : ", which wrote it"}`;
  return `Cannot restore ${name}: ${foreign.why}; use ${program}`;
}

export interface Restored {
  /** How many tokens were active when the backup was made. Each is disabled until an operator resumes it. */
  readonly disabledTokens: number;
}

/** Restores a backup; resolves to a refusal if the database cannot be restored into. */
export async function restoreBackup(
  address: DatabaseAddress,
  options: RestoreOptions,
): Promise<Restored | Refusal> {
  const { proven, migrations, note = NO_RESTORE_NOTE } = options;
  const schema = proven.head.migrations.length;
  const own = migrations.slice(0, schema);
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot restore: ${why}`);

  const status = await migrationStatus(address, migrations);
  if (status.refusal !== undefined) return status.refusal;
  const contents = await readContents(address);
  if (contents !== undefined) return cannot(notEmpty(options, contents));
  if (status.applied.length > schema) {
    return cannot(
      `the database in ${options.place} is empty but has schema ${status.applied.length} already, and the ` +
        `backup has ${schema}; give a database that was never migrated: restore migrates it itself`,
    );
  }
  await note.leave();
  let mayBeCommitted = false;
  const loadAll = async () => {
    const prepared = await migrate(address, own);
    if (isRefusal(prepared)) return prepared;
    return await inTransaction(address, async (sql) => {
      const loaded = await load(sql, own, options);
      mayBeCommitted = true;
      return loaded;
    });
  };
  let restored: Restored | Refusal;
  try {
    restored = await loadAll();
  } catch (error) {
    restored = toRefusal(error, proven.name, "restore");
  } finally {
    if (!mayBeCommitted) await note.takeBack();
  }
  if (isRefusal(restored)) return restored;
  const migrated = await migrate(address, migrations);
  if (isRefusal(migrated)) return migrated;
  await finishRestore(address, options);
  await note.remove();
  return restored;
}

function notEmpty({ place, isExternal }: RestoreOptions, contents: string): string {
  const empty = isExternal
    ? "a new database in DATABASE_URL, or a folder with --data-dir and settings without DATABASE_URL"
    : "another folder with --data-dir, or a new database in DATABASE_URL";
  return `the database in ${place} is not empty (${contents}); give an empty one: ${empty}`;
}

async function readContents(address: DatabaseAddress): Promise<string | undefined> {
  await using session = openSession(address, { statementTimeoutMs: 60_000 });
  await session.connect();
  return await findContents(session.sql);
}

async function load(sql: Sql, migrations: readonly Migration[], options: RestoreOptions): Promise<Restored> {
  const { proven, watch } = options;
  const { tables } = proven.head;
  await setCopySettings(sql, options.lockWaitMs);
  // A service or command that starts now waits, and then finds the whole restore or no change.
  const names = [...tableNamesOf(migrations), "schema_migrations"].map(quoted);
  await sql.unsafe(`lock table ${names.join(", ")} in access exclusive mode`);
  const contents = await findContents(sql);
  if (contents !== undefined) throw new BackupFailure(notEmpty(options, contents));
  await makePartitions(sql, tables);

  // A trigger could change or refuse a row. Those of foreign keys are not among these.
  for (const { name } of tables) await sql`alter table ${sql(name)} disable trigger user`;
  await deleteFilled(sql, tables);
  await loadBeside(options);
  const sums = await loadSections(sql, options);
  for (const { name } of tables) await sql`alter table ${sql(name)} enable trigger user`;
  if (sums?.sha256 !== proven.sums.sha256) {
    throw new Error(`${proven.name} was changed while it was read: restore again`);
  }
  for (const table of tables) {
    const saved = sums.tables.find(({ name }) => name === table.name);
    const read = await sumTable(sql, table, (rows) =>
      watch.onProgress({ doing: "reading back", what: table.name, done: rows, of: saved?.rows }),
    );
    if (read.sha256 !== saved?.sha256 || read.rows !== saved.rows) {
      throw new Error(
        `Cannot restore: the loaded rows of ${table.name} differ from the backup; nothing was changed`,
      );
    }
    await setSequences(sql, table);
  }
  if (options.withoutSealed) {
    const sealed = tables.filter(({ name }) => SEALED.includes(name));
    for (const { name } of sealed) await sql`delete from ${sql(name)}`;
  }
  // Older backups have no tokens and no machines.
  const has = (table: string) => tables.some(({ name }) => name === table);
  const disabledTokens = has("tokens") ? await disableTokens(sql) : 0;
  if (has("machines"))
    await restoreMachines(sql, { isSecretLost: options.withoutSealed, madeAt: proven.head.made_at });
  options.beforeCommit();
  return { disabledTokens };
}

/** The tables whose rows are useless without the secret that sealed them. */
const SEALED: readonly string[] = ["installer_token", "secret_canary", "signing_keys"];

async function makePartitions(sql: Sql, tables: readonly BackedUpTable[]): Promise<void> {
  // The only partitioned table. The months of another table would go to its default partition.
  const months = tables.find(({ name }) => name === "events")?.months ?? [];
  const database = {
    query: async (build: (sql: Sql) => PromiseLike<unknown>) => (await build(sql)) as never,
  };
  for (const month of months) await attachPartition(database, monthOf(Date.parse(month)));
}

/** Loads the whole file, and returns its sums, which are proven again. */
async function loadSections(sql: Sql, options: RestoreOptions): Promise<Sums | undefined> {
  const { proven, watch } = options;
  let sums: Sums | undefined;
  for await (const section of readBackup(proven.path)) {
    if (section.kind === "sums") sums = section.sums;
    else if (section.kind === "table") {
      const what = section.table.name;
      const of = proven.sums.tables.find(({ name }) => name === what)?.rows;
      const copy = await copyIn(sql, renderCopyIn(section.table));
      for await (const bytes of section.content) {
        await copy.write(bytes);
        watch.onProgress({ doing: "loading", what, done: section.rows(), of });
      }
      await copy.end();
    } else if (section.kind === "model") await loadModel(section, section.content, options);
  }
  return sums;
}

/** Copies the model files beside the backup into the data folder. */
async function loadBeside(options: RestoreOptions): Promise<void> {
  const { head, besideFolder } = options.proven;
  if (besideFolder === undefined) return;
  for (const { sha256, bytes: sizeBytes } of head.beside?.files ?? []) {
    const file = { sha256, sizeBytes };
    const [copy] = await listCopies({ dataDir: dirname(besideFolder) }, file);
    if (copy !== undefined) await loadModel(file, readProven(copy, file, { onProgress() {} }), options);
  }
}

async function loadModel(
  { sha256, sizeBytes }: StoredFile,
  content: AsyncIterable<Buffer>,
  { models, clock, watch }: RestoreOptions,
): Promise<void> {
  const onProgress = (done: number, of: number) =>
    watch.onProgress({ doing: "loading", what: modelName(sha256), done, of });
  const stored = await explain(`Cannot write into ${modelsFolderOf(models)}`, () =>
    storeBytes(models, content, { now: clock.now(), sizeBytes, onProgress }),
  );
  if (isRefusal(stored)) throw new Error(stored.sentence);
}

/** Sets the sequences of identity columns to the highest loaded value. */
async function setSequences(sql: Sql, { name }: BackedUpTable): Promise<void> {
  const sequences = await sql<{ column: string; sequence: string }[]>`
    select attname as column, pg_get_serial_sequence(quote_ident(${name}), attname) as sequence
      from pg_attribute
     where attrelid = to_regclass(quote_ident(${name})) and attnum > 0 and not attisdropped
       and pg_get_serial_sequence(quote_ident(${name}), attname) is not null`;
  for (const { column, sequence } of sequences) {
    await sql`
      select setval(${sequence}::regclass, highest)
        from (select max(${sql(column)}) as highest from ${sql(name)}) as loaded
       where highest is not null`;
  }
}

/** Finishes a restore: writes a row of the audit log, and updates the planner's statistics. */
async function finishRestore(address: DatabaseAddress, options: RestoreOptions): Promise<void> {
  const { actor, clock, withoutSealed } = options;
  const { head, sums } = options.proven;
  const after = {
    made_at: head.made_at,
    claviger: head.claviger,
    sha256: sums.sha256,
    ...(withoutSealed && { without_sealed: true }),
  };
  await inTransaction(
    address,
    (sql) => sql`
      with restored as (select null::jsonb as before, ${JSON.stringify(after)}::text::jsonb as after)
      ${auditCte(sql, { action: "database.restore", actor, at: clock.now(), from: sql`restored` })}`,
  );
  // Each table apart, so that one that takes too long costs the others nothing.
  await using session = openSession(address, { statementTimeoutMs: 600_000 });
  await session.connect();
  for (const { name } of head.tables) await session.sql`analyze ${session.sql(name)}`;
}
