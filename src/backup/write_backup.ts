/**
 * Takes a backup: everything from one snapshot, while other sessions continue to write.
 *
 * Before the snapshot, the tables are locked against changes of their structure (`access share`, which blocks
 * neither reads nor writes), so that the catalogue describes the tables of the snapshot.
 */
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
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { createSecrets, opensCanary, parseRootSecret } from "../secrets/mod.ts";
import { reasonOf } from "../system_error.ts";
import { type ContentOptions, renderTar } from "./_content.ts";
import { BackupFailure } from "./_errors.ts";
import { checkPlace, type WholeOptions, type WrittenFile, writeThrough, writeWhole } from "./_files.ts";
import { seal } from "./_seal.ts";
import { inTransaction } from "./_session.ts";
import { listTables, quoted, setCopySettings, tableNamesOf } from "./_tables.ts";
import { FORMAT, FORMAT_VERSION, type Head, type Sums } from "./format.ts";
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
    const write = (fd: number) =>
      inTransaction(address, async (sql) => {
        await sql`set transaction isolation level repeatable read, read only`;
        await setCopySettings(sql, options.lockWaitMs);
        // The lock takes no snapshot: the first statement that reads rows does.
        await sql.unsafe(`lock table ${tableNamesOf(known).map(quoted).join(", ")} in access share mode`);
        return await writeSnapshot(sql, known, { ...options, fd });
      });
    let isVerified = false;
    const written = await writeWhole(options.path, write, {
      ...options,
      // After the transaction, which holds back migrations.
      async check(path) {
        const proven = await verifyBackup(path, options.watch);
        if (isRefusal(proven)) throw new BackupFailure(`the written file is wrong: ${proven.sentence}`);
        isVerified = true;
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
  if (options.secret !== undefined) await proveSecret(sql, options.secret);
  const head: Head = {
    format: FORMAT,
    format_version: FORMAT_VERSION,
    claviger: options.version,
    made_at: options.now.toISOString(),
    brand: options.brand,
    postgres: seen.postgres,
    migrations: migrations.map((one) => ({ number: one.number, name: one.name, checksum: checksumOf(one) })),
    tables: await listTables(sql, migrations),
    secret: options.secret !== undefined,
    models: options.modelsFolder !== undefined,
  };
  const sums: Sums = { tables: [], models: [], sha256: "" };
  const compressed = pipeline(renderTar(sql, { head, sums, options }), zlib.createZstdCompress(), () => {});
  const written = await writeThrough(options.fd, seal(compressed));
  return { ...written, head, sums };
}

async function proveSecret(sql: Sql, text: string): Promise<void> {
  const [canary] = await sql<{ sealed: string }[]>`select sealed from secret_canary`;
  const parsed = parseRootSecret(text);
  if (!parsed.ok) throw new BackupFailure(`its secret cannot be used: ${parsed.error}`);
  if (canary !== undefined && !opensCanary(createSecrets(parsed.rootSecret), canary.sealed)) {
    throw new BackupFailure("another secret sealed the database; give the secret of the first start");
  }
}
