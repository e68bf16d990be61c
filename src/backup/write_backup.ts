/**
 * Takes a backup: everything from one snapshot, while other sessions continue to write.
 *
 * Before the snapshot, the tables are locked against changes of their structure (`access share`, which blocks
 * neither reads nor writes), so that the catalogue describes the tables of the snapshot.
 */
import { createHash } from "node:crypto";
import { pipeline } from "node:stream";
// Imported as a namespace: with a named import, a Node without zstd would fail before the program can say which
// Node it needs.
import * as zlib from "node:zlib";
import {
  checksumOf,
  type DatabaseAddress,
  type Migration,
  migrationStatus,
  type Sql,
} from "../database/mod.ts";
import { checkStoredFile, keepFile, locateFile } from "../models/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { createSecrets, opensCanary, parseRootSecret } from "../secrets/mod.ts";
import { reasonOf } from "../system_error.ts";
import { type ContentOptions, listModelFiles, readModel, renderTar } from "./_content.ts";
import { BackupFailure } from "./_errors.ts";
import {
  checkPlace,
  explain,
  FileFailure,
  type WholeOptions,
  type WrittenFile,
  writeThrough,
  writeWhole,
} from "./_files.ts";
import { seal } from "./_seal.ts";
import { inTransaction } from "./_session.ts";
import { listTables, quoted, setCopySettings, tableNamesOf } from "./_tables.ts";
import { FORMAT, FORMAT_VERSION, type Head, modelName, type Sums, ZSTD_CHUNK_BYTES } from "./format.ts";
import { noteBackup } from "./last_backup.ts";
import { toRefusal, verifyBackup } from "./read_backup.ts";

export interface BackupOptions extends Omit<WholeOptions, "check">, ContentOptions {
  /** The file; `-` means standard output. */
  readonly path: string;
  /** The migrations of this program. The database may have only the first of them, but no other ones. */
  readonly migrations: readonly Migration[];
  readonly version: string;
  readonly brand: string;
  /** How long to wait while another process locks a table; 30 s by default. */
  readonly lockWaitMs?: number;
  /** The folder beside the backup that keeps the model files, in place of the file itself. */
  readonly besideFolder?: string;
}

export interface Backup extends WrittenFile {
  readonly head: Head;
  readonly sums: Sums;
  /** Whether the file was read again and is right; standard output cannot be read. */
  readonly isVerified: boolean;
  /** Why the database could not note that a backup was taken; undefined if it did. */
  readonly notNoted: string | undefined;
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
  const status = await migrationStatus(address, options.migrations);
  if (status.refusal !== undefined) return status.refusal;
  if (status.applied.length === 0) {
    return refuse(
      "INVALID_REQUEST",
      "Cannot back up: the database is empty; no Claviger has served from it yet",
    );
  }
  if (status.applied.length > options.migrations.length) {
    return refuse(
      "INVALID_REQUEST",
      "Cannot back up: a newer Claviger migrated the database, and this one does not know everything in it; take the " +
        "backup with the newer one",
    );
  }
  const known = options.migrations.slice(0, status.applied.length);
  try {
    await checkPlace(options.path, options);
    const write = async (fd: number) => {
      const written = await inTransaction(address, async (sql) => {
        await sql`set transaction isolation level repeatable read, read only`;
        await setCopySettings(sql, options.lockWaitMs);
        // The lock takes no snapshot: the first statement that reads rows does.
        await sql.unsafe(`lock table ${tableNamesOf(known).map(quoted).join(", ")} in access share mode`);
        return await writeSnapshot(sql, known, { ...options, fd });
      });
      // After the transaction, because large files take long.
      await keepModels(written.head, options);
      return written;
    };
    const isVerified = options.path !== "-";
    const written = await writeWhole(options.path, write, {
      ...options,
      // After the transaction, which holds back migrations.
      async check(path) {
        const proven = await verifyBackup(path, options.watch);
        if (isRefusal(proven)) throw new BackupFailure(`the written file is wrong: ${proven.sentence}`);
      },
    });
    const note = (sql: Sql) => noteBackup(sql, { takenAt: options.now, isVerified });
    const notNoted =
      status.pending.length > 0
        ? "its schema is older than this program"
        : await inTransaction(address, note).catch(reasonOf);
    return { ...written, isVerified, notNoted };
  } catch (error) {
    return toRefusal(error, options.path, "back up");
  }
}

async function writeSnapshot(
  sql: Sql,
  migrations: readonly Migration[],
  options: BackupOptions & { readonly fd: number },
): Promise<Omit<Backup, "isVerified" | "notNoted">> {
  const [seen] = await sql<{ applied: number; postgres: number }[]>`
    select count(*) as applied, current_setting('server_version_num')::integer as postgres
      from schema_migrations`;
  if (seen?.applied !== migrations.length) {
    throw new BackupFailure("the database is being migrated; try again when that is done");
  }
  const [canary] = await sql<{ sealed: string }[]>`select sealed from secret_canary`;
  if (options.secret !== undefined) proveSecret(options.secret, canary?.sealed);
  const tables = await listTables(sql, migrations);
  const isBeside = options.besideFolder !== undefined;
  const listed = isBeside ? await listModelFiles(sql, tables) : [];
  const files = listed.map(({ sha256, sizeBytes }) => ({ sha256, bytes: sizeBytes }));
  const installation = canary ? createHash("sha256").update(canary.sealed).digest("hex") : null;
  const head: Head = {
    format: FORMAT,
    format_version: isBeside ? FORMAT_VERSION : 1,
    claviger: options.version,
    made_at: options.now.toISOString(),
    brand: options.brand,
    postgres: seen.postgres,
    migrations: migrations.map((one) => ({ number: one.number, name: one.name, checksum: checksumOf(one) })),
    tables,
    secret: options.secret !== undefined,
    models: options.models !== undefined && !isBeside,
    ...(isBeside && { beside: { installation, files } }),
  };
  const sums: Sums = { tables: [], models: files, sha256: "" };
  const compressed = pipeline(
    renderTar(sql, { head, sums, options }),
    zlib.createZstdCompress({ chunkSize: ZSTD_CHUNK_BYTES }),
    () => {},
  );
  const written = await writeThrough(options.fd, seal(compressed));
  return { ...written, head, sums };
}

/** Copies the model files that are not there yet into the folder beside the backup, and reads the copies again. */
async function keepModels({ beside }: Head, options: BackupOptions): Promise<void> {
  const { models, besideFolder, watch } = options;
  if (models === undefined || besideFolder === undefined) return;
  for (const { sha256, bytes: sizeBytes } of beside?.files ?? []) {
    const file = { sha256, sizeBytes };
    if (typeof (await locateFile(besideFolder, file)) !== "string") continue;
    const bytes = readModel(models, file, watch);
    let done = 0;
    const onBytes = (length: number) => {
      done += length;
      watch.onProgress({ doing: "checking", what: modelName(sha256), done, of: sizeBytes });
    };
    await explain(`Cannot write into ${besideFolder}`, () =>
      keepFile(besideFolder, bytes, { sizeBytes, onProgress() {} }, async (_, path) => {
        const problem = await checkStoredFile(path, file, onBytes);
        if (problem === undefined) return undefined;
        throw new FileFailure(`Cannot write into ${besideFolder}: a model file read back is ${problem}`);
      }),
    );
  }
}

function proveSecret(text: string, sealed: string | undefined): void {
  const parsed = parseRootSecret(text);
  if (!parsed.ok) throw new BackupFailure(`its secret cannot be used: ${parsed.error}`);
  if (sealed !== undefined && !opensCanary(createSecrets(parsed.rootSecret), sealed)) {
    throw new BackupFailure("another secret sealed the database; give the secret of the first start");
  }
}
