/**
 * Takes a backup: everything from one snapshot, while other sessions continue to write.
 *
 * Before the snapshot, the tables are locked against changes of their structure (`access share`, which blocks
 * neither reads nor writes), so that the catalogue describes the tables of the snapshot.
 */

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream";
// Imported as a namespace: with a named import, a Node without zstd would fail before the program can say which
// Node it needs.
import * as zlib from "node:zlib";
import {
  checksumOf,
  copyOut,
  type DatabaseAddress,
  isLockTimeout,
  type Migration,
  migrationStatus,
  type Sql,
} from "../database/mod.ts";
import { pathOfFile, type StoredFile } from "../models/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { createSecrets, opensCanary, parseRootSecret } from "../secrets/mod.ts";
import { reasonOf } from "../system_error.ts";
import {
  checkPlace,
  explain,
  type WholeOptions,
  type WrittenFile,
  writeThrough,
  writeWhole,
} from "./_files.ts";
import { seal } from "./_seal.ts";
import { inTransaction, LOCKED } from "./_session.ts";
import { createRowSum } from "./_sums.ts";
import { countRows, listTables, quoted, renderCopiesOut, setCopySettings, tableNamesOf } from "./_tables.ts";
import { renderTarHeader, TAR_END, tarPadding } from "./_tar.ts";
import {
  type BackedUpTable,
  FORMAT,
  FORMAT_VERSION,
  HEAD_NAME,
  type Head,
  modelName,
  PART_BYTES,
  partName,
  renderJson,
  SECRET_NAME,
  SUMS_NAME,
  type Sums,
  type TableSum,
} from "./format.ts";
import { noteBackup } from "./last_backup.ts";
import type { Watch } from "./progress.ts";
import { toRefusal, verifyBackup } from "./read_backup.ts";

export interface BackupOptions extends Omit<WholeOptions, "check"> {
  /** The file; `-` means standard output. */
  readonly path: string;
  /** The migrations of this program; the database may have only the first of them. */
  readonly migrations: readonly Migration[];
  readonly version: string;
  readonly brand: string;
  readonly now: Date;
  /** The root secret's text, if the backup should contain it. */
  readonly secret?: string | undefined;
  /** The folder of model files, if the backup should contain them. */
  readonly modelsFolder?: string | undefined;
  /** How long to wait while another process locks a table; 30 s by default. */
  readonly lockWaitMs?: number;
  readonly watch: Watch;
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
    if (error instanceof BackupFailure) return refuse("INVALID_REQUEST", `Cannot back up: ${error.message}`);
    if (isLockTimeout(error)) return refuse("INVALID_REQUEST", `Cannot back up: ${LOCKED}`);
    return toRefusal(error, options.path);
  }
}

/** Thrown for a cause that the operator can remove. */
class BackupFailure extends Error {}

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

interface Content {
  readonly head: Head;
  /** Filled in while the content is rendered. */
  readonly sums: Sums;
  readonly options: BackupOptions;
}

/** Yields the tar's bytes in order. */
async function* renderTar(sql: Sql, { head, sums, options }: Content): AsyncGenerator<Buffer> {
  const whole = createHash("sha256");
  const entry = (name: string, bytes: Buffer) =>
    Buffer.concat([
      renderTarHeader({ name, size: bytes.length }, options.now),
      bytes,
      tarPadding(bytes.length),
    ]);
  for await (const bytes of renderContent(sql, { head, sums, options }, entry)) {
    whole.update(bytes);
    yield bytes;
  }
  sums.sha256 = whole.digest("hex");
  yield entry(SUMS_NAME, renderJson(sums));
  yield TAR_END;
}

async function* renderContent(
  sql: Sql,
  { head, sums, options }: Content,
  entry: (name: string, bytes: Buffer) => Buffer,
): AsyncGenerator<Buffer> {
  yield entry(HEAD_NAME, renderJson(head));
  if (options.secret !== undefined) yield entry(SECRET_NAME, Buffer.from(`${options.secret.trim()}\n`));
  for (const table of head.tables) {
    let number = 0;
    for await (const part of renderParts(sql, table, { sums, watch: options.watch })) {
      yield entry(partName(table.name, ++number), part);
    }
  }
  if (options.modelsFolder === undefined) return;
  for (const file of await listModelFiles(sql, head)) {
    const { sha256, sizeBytes } = file;
    yield renderTarHeader({ name: modelName(sha256), size: sizeBytes }, options.now);
    yield* renderModel(pathOfFile(options.modelsFolder, sha256), file, options.watch);
    yield tarPadding(sizeBytes);
    sums.models.push({ sha256, bytes: sizeBytes });
  }
}

/** Yields a table's rows in parts of about {@linkcode PART_BYTES}, cut between rows. */
async function* renderParts(
  sql: Sql,
  table: BackedUpTable,
  { sums, watch }: { readonly sums: Sums; readonly watch: Watch },
): AsyncGenerator<Buffer> {
  const of = await countRows(sql, table);
  const sum = createRowSum();
  let chunks: Buffer[] = [];
  let length = 0;
  const takePart = () => {
    const part = Buffer.concat(chunks, length);
    chunks = [];
    length = 0;
    sum.add(part);
    watch.onProgress({ doing: "saving", what: table.name, done: sum.rows(), of });
    return part;
  };
  for await (const rows of readRows(sql, table)) {
    chunks.push(rows);
    length += rows.length;
    // A chunk contains whole rows, so a part ends with a whole row.
    if (length >= PART_BYTES) yield takePart();
  }
  if (length > 0) yield takePart();
  if (sum.rows() !== of) throw new Error(`${table.name} has ${of} rows, and ${sum.rows()} were written`);
  sums.tables.push(sum.end(table.name));
}

/** Yields the rows of a table in the order and text of the format. */
async function* readRows(sql: Sql, table: BackedUpTable): AsyncGenerator<Buffer> {
  for (const statement of await renderCopiesOut(sql, table)) yield* copyOut(sql, statement);
}

/** Counts and hashes the rows that the database has now, as a backup would contain them. */
export async function sumTable(
  sql: Sql,
  table: BackedUpTable,
  onRows: (rows: number) => void,
): Promise<TableSum> {
  const sum = createRowSum();
  for await (const rows of readRows(sql, table)) {
    sum.add(rows);
    onRows(sum.rows());
  }
  return sum.end(table.name);
}

async function listModelFiles(sql: Sql, head: Head): Promise<StoredFile[]> {
  // Older schemas have no such table.
  if (!head.tables.some(({ name }) => name === "model_files")) return [];
  return await sql<StoredFile[]>`
    select sha256, size_bytes as "sizeBytes" from model_files order by sha256 collate "C"`;
}

async function* renderModel(
  path: string,
  { sha256, sizeBytes }: StoredFile,
  watch: Watch,
): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  let done = 0;
  const chunks = createReadStream(path, { highWaterMark: 1024 * 1024 })[Symbol.asyncIterator]();
  for (;;) {
    const { value, done: ended } = await explain(`Cannot read ${path}`, () => chunks.next());
    if (ended) break;
    hash.update(value);
    done += value.length;
    if (done > sizeBytes) break;
    watch.onProgress({ doing: "saving", what: modelName(sha256), done, of: sizeBytes });
    yield value;
  }
  if (done !== sizeBytes || hash.digest("hex") !== sha256) {
    throw new BackupFailure(`the model file ${path} is damaged; see \`claviger models verify\``);
  }
}

async function proveSecret(sql: Sql, text: string): Promise<void> {
  const [canary] = await sql<{ sealed: string }[]>`select sealed from secret_canary`;
  const parsed = parseRootSecret(text);
  if (!parsed.ok) throw new BackupFailure(parsed.error);
  if (canary !== undefined && !opensCanary(createSecrets(parsed.rootSecret), canary.sealed)) {
    throw new BackupFailure("another secret sealed the database; give the secret of the first start");
  }
}
