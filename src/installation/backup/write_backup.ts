/**
 * Takes a backup: everything from one snapshot, while other sessions continue to write.
 *
 * Before the snapshot, the model files are saved or found good, because that can take long, and because the head, which
 * comes first in the file, names those that cannot be saved. Then the tables are locked against changes of their structure
 * (`access share`, which blocks neither reads nor writes), so that the catalogue describes the tables of the snapshot.
 */
import { pipeline } from "node:stream";
// Imported as a namespace: with a named import, a Node without zstd would fail before the program can say which
// Node it needs.
import * as zlib from "node:zlib";
import type { Clock } from "../../base/clock.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { createSecrets, opensCanary, parseRootSecret } from "../../base/secrets/mod.ts";
import { reasonOf } from "../../base/system_error.ts";
import {
  checksumOf,
  type DatabaseAddress,
  type Migration,
  migrationStatus,
  type Sql,
} from "../../database/mod.ts";
import { type ModelsPlace, type StoredFile, selectVersionsOf } from "../../models/mod.ts";
import { type ContentOptions, listModelFiles, renderTar } from "./_content.ts";
import { BackupFailure } from "./_errors.ts";
import { checkPlace, type WholeOptions, type WrittenFile, writeThrough, writeWhole } from "./_files.ts";
import { createModelSaver, type ModelSaver } from "./_save_models.ts";
import { seal } from "./_seal.ts";
import { listTables, quoted, setCopySettings, tableNamesOf } from "./_tables.ts";
import { inTransaction } from "./_transaction.ts";
import {
  FORMAT,
  FORMAT_VERSION,
  type Head,
  type MissingModel,
  type Sums,
  ZSTD_CHUNK_BYTES,
} from "./format.ts";
import { noteBackup } from "./last_backup.ts";
import { toRefusal, verifyBackup } from "./read_backup.ts";

export interface BackupOptions extends Omit<WholeOptions, "check">, Omit<ContentOptions, "now"> {
  /** The file; `-` means standard output. */
  readonly path: string;
  /** The migrations of this program. The database may have only the first of them, but no other ones. */
  readonly migrations: readonly Migration[];
  readonly version: string;
  readonly brand: string;
  /** How long to wait while another process locks a table; 30 s by default. */
  readonly lockWaitMs?: number;
  /** Where the model files are, if the backup should contain them or keep them beside it. */
  readonly models?: ModelsPlace | undefined;
  /** The folder beside the backup that keeps the model files, in place of the file itself. */
  readonly besideFolder?: string;
  readonly clock: Pick<Clock, "now">;
}

export interface Backup extends WrittenFile {
  /** Its `missing_models` are the model files that could not be saved; everything else is saved. */
  readonly head: Head;
  readonly sums: Sums;
  /** How many model files the database names. */
  readonly modelFiles: number;
  /** Whether the file was read again and is right; standard output cannot be read. */
  readonly isVerified: boolean;
  /** Why the database could not note that a backup was taken; undefined if it did. */
  readonly notNoted: string | undefined;
}

/** What tells one installation from another. */
export interface BackupSource {
  /** As in the head of a backup. */
  readonly installation: string | null;
  readonly keys: number;
}

/** A backup of which the model files are saved. */
interface Prepared {
  /** The migrations that the database has. */
  readonly known: readonly Migration[];
  readonly isOutdated: boolean;
  readonly saver: ModelSaver | undefined;
}

/**
 * Writes a backup of the database to a file, reads the file again, and then gives it its name: a file that is wrong
 * replaces no other. Notes in the database that a backup was taken. Refuses an empty database, and a path that cannot be
 * written.
 */
export async function writeBackup(
  address: DatabaseAddress,
  options: BackupOptions,
): Promise<Backup | Refusal> {
  try {
    await checkPlace(options.path, options);
    const prepared = await prepareBackup(address, options);
    if (isRefusal(prepared)) return prepared;
    return await finishBackup(address, prepared, { ...options, now: options.clock.now() });
  } catch (error) {
    return toRefusal(error, options.path, "back up");
  }
}

/**
 * Saves the model files, before the snapshot. `admit` is called first, and may throw. Throws what {@linkcode toRefusal}
 * turns into a refusal.
 */
export async function prepareBackup(
  address: DatabaseAddress,
  options: Omit<BackupOptions, "path" | "replace" | "lock"> & {
    readonly admit?: (source: BackupSource) => Promise<void>;
  },
): Promise<Prepared | Refusal> {
  const { migrations, models, besideFolder, clock, watch } = options;
  const status = await migrationStatus(address, migrations);
  if (status.refusal !== undefined) return status.refusal;
  if (status.applied.length === 0) {
    return refuse(
      "INVALID_REQUEST",
      "Cannot back up: the database is empty; no Claviger has served from it yet",
    );
  }
  if (status.applied.length > migrations.length) {
    return refuse(
      "INVALID_REQUEST",
      "Cannot back up: a newer Claviger migrated the database, and this one does not know everything in it; take the " +
        "backup with the newer one",
    );
  }
  const { source, files } = await inTransaction(address, async (sql) => {
    await setCopySettings(sql, options.lockWaitMs);
    const [source] = await selectBackupSource(sql);
    return { source, files: await listModelFiles(sql) };
  });
  if (source !== undefined) await options.admit?.(source);
  const saver = models && createModelSaver({ models, besideFolder, now: clock.now(), watch });
  await saver?.save(files);
  const known = migrations.slice(0, status.applied.length);
  return { known, isOutdated: status.pending.length > 0, saver };
}

interface FinishOptions extends Omit<BackupOptions, "clock">, Pick<ContentOptions, "now"> {}

/** Takes the snapshot and writes it, after {@linkcode prepareBackup}. Throws as that does. */
export async function finishBackup(
  address: DatabaseAddress,
  { known, isOutdated, saver }: Prepared,
  options: FinishOptions,
): Promise<Backup> {
  const write = (fd: number) =>
    inTransaction(address, async (sql) => {
      await sql`set transaction isolation level repeatable read, read only`;
      await setCopySettings(sql, options.lockWaitMs);
      // The lock takes no snapshot: the first statement that reads rows does.
      await sql.unsafe(`lock table ${tableNamesOf(known).map(quoted).join(", ")} in access share mode`);
      return await writeSnapshot(sql, known, { ...options, saver, fd });
    });
  const isVerified = options.path !== "-";
  const written = await writeWhole(options.path, write, {
    ...options,
    // After the transaction, which holds back migrations.
    async check(path) {
      const proven = await verifyBackup(path, options.watch);
      if (isRefusal(proven)) throw new BackupFailure(`the written file is wrong: ${proven.sentence}`);
    },
  });
  const missingModels = saver === undefined ? null : (written.head.missing_models?.length ?? 0);
  const note = (sql: Sql) => noteBackup(sql, { takenAt: options.now, isVerified, missingModels });
  const notNoted = isOutdated
    ? "its schema is older than this program"
    : await inTransaction(address, note).catch(reasonOf);
  return { ...written, isVerified, notNoted };
}

async function writeSnapshot(
  sql: Sql,
  migrations: readonly Migration[],
  options: FinishOptions & Pick<Prepared, "saver"> & { readonly fd: number },
): Promise<Omit<Backup, "isVerified" | "notNoted">> {
  const { saver, secret, now } = options;
  const [seen] = await sql<{ applied: number; postgres: number }[]>`
    select count(*) as applied, current_setting('server_version_num')::integer as postgres
      from schema_migrations`;
  if (seen?.applied !== migrations.length) {
    throw new BackupFailure("the database is being migrated; try again when that is done");
  }
  if (secret !== undefined) proveSecret(secret, await readCanary(sql));
  const [source] = await selectBackupSource(sql);
  const tables = await listTables(sql, migrations);
  const listed = await listModelFiles(sql);
  // A file may have been added since the files were saved.
  await saver?.save(listed);
  const saved = saver === undefined ? [] : listed.filter((file) => saver.problemOf(file) === undefined);
  const isBeside = options.besideFolder !== undefined;
  const head: Head = {
    format: FORMAT,
    format_version: FORMAT_VERSION,
    claviger: options.version,
    made_at: now.toISOString(),
    brand: options.brand,
    postgres: seen.postgres,
    migrations: migrations.map((one) => ({ number: one.number, name: one.name, checksum: checksumOf(one) })),
    tables,
    secret: secret !== undefined,
    models: saver !== undefined && !isBeside,
    ...source,
    missing_models: saver === undefined ? [] : await describeMissing(sql, saver, listed),
    ...(isBeside && { beside: { files: saved.map(toModelFile) } }),
  };
  const sums: Sums = { tables: [], models: isBeside ? saved.map(toModelFile) : [], sha256: "" };
  const models = saver && head.models ? { files: saved, read: saver.read } : undefined;
  const compressed = pipeline(
    renderTar(sql, { head, sums, models, options }),
    zlib.createZstdCompress({ chunkSize: ZSTD_CHUNK_BYTES }),
    () => {},
  );
  const written = await writeThrough(options.fd, seal(compressed));
  return { ...written, head, sums, modelFiles: listed.length };
}

async function describeMissing(
  sql: Sql,
  saver: ModelSaver,
  files: readonly StoredFile[],
): Promise<MissingModel[]> {
  const missing: MissingModel[] = [];
  for (const file of files) {
    const why = saver.problemOf(file);
    if (why === undefined) continue;
    missing.push({ ...toModelFile(file), versions: await selectVersionsOf(sql, file), why });
  }
  return missing;
}

function toModelFile({ sha256, sizeBytes }: StoredFile) {
  return { sha256, bytes: sizeBytes };
}

async function readCanary(sql: Sql): Promise<string | undefined> {
  const [row] = await sql<{ sealed: string }[]>`select sealed from secret_canary`;
  return row?.sealed;
}

/** Reads what tells this installation from another, in one row. */
export function selectBackupSource(sql: Sql) {
  return sql<BackupSource[]>`
    select (select encode(sha256(convert_to(sealed, 'UTF8')), 'hex') from secret_canary) as installation,
           (select count(*) from keys) as keys`;
}

function proveSecret(text: string, sealed: string | undefined): void {
  const parsed = parseRootSecret(text);
  if (!parsed.ok) throw new BackupFailure(`its secret cannot be used: ${parsed.error}`);
  if (sealed !== undefined && !opensCanary(createSecrets(parsed.rootSecret), sealed)) {
    throw new BackupFailure("another secret sealed the database; give the secret of the first start");
  }
}
