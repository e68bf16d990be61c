/** The content of a backup: the tar with every table and model file, before it is compressed. */
import { createHash } from "node:crypto";
import { copyOut, type Sql } from "../../database/mod.ts";
import { type StoredFile, selectFiles } from "../../models/mod.ts";
import type { ModelSaver } from "./_save_models.ts";
import { createRowSum } from "./_sums.ts";
import { countTableRows, renderCopiesOut } from "./_tables.ts";
import { renderTarHeader, TAR_END, tarPadding } from "./_tar.ts";
import {
  type BackedUpTable,
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
import type { Watch } from "./progress.ts";

export interface ContentOptions {
  readonly now: Date;
  /** The root secret's text, if the backup should contain it. */
  readonly secret?: string | undefined;
  readonly watch: Watch;
}

interface Content {
  readonly head: Head;
  /** Filled in while the content is rendered. */
  readonly sums: Sums;
  /** The model files that go into the tar, and how to read them. */
  readonly models: { readonly files: readonly StoredFile[]; readonly read: ModelSaver["read"] } | undefined;
  readonly options: ContentOptions;
}

/** Yields the tar's bytes in order. */
export async function* renderTar(sql: Sql, { head, sums, models, options }: Content): AsyncGenerator<Buffer> {
  const whole = createHash("sha256");
  // Three chunks, because joining them would copy megabytes of rows.
  const entry = (name: string, bytes: Buffer) => [
    renderTarHeader({ name, size: bytes.length }, options.now),
    bytes,
    tarPadding(bytes.length),
  ];
  for await (const bytes of renderContent(sql, { head, sums, models, options }, entry)) {
    whole.update(bytes);
    yield bytes;
  }
  sums.sha256 = whole.digest("hex");
  yield* entry(SUMS_NAME, renderJson(sums));
  yield TAR_END;
}

async function* renderContent(
  sql: Sql,
  { head, sums, models, options }: Content,
  entry: (name: string, bytes: Buffer) => Buffer[],
): AsyncGenerator<Buffer> {
  yield* entry(HEAD_NAME, renderJson(head));
  if (options.secret !== undefined) yield* entry(SECRET_NAME, Buffer.from(`${options.secret.trim()}\n`));
  for (const table of head.tables) {
    let number = 0;
    for await (const part of renderParts(sql, table, { sums, watch: options.watch })) {
      yield* entry(partName(table.name, ++number), part);
    }
  }
  for (const file of models?.files ?? []) {
    const { sha256, sizeBytes } = file;
    yield renderTarHeader({ name: modelName(sha256), size: sizeBytes }, options.now);
    yield* models?.read(file) ?? [];
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
  const of = await countTableRows(sql, table);
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

/** Yields the rows of a table as text, in the order that the format of backups demands. */
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

/** Lists the model files that the database names. */
export async function listModelFiles(sql: Sql): Promise<StoredFile[]> {
  // Older schemas have no such table.
  const [found] = await sql`select from pg_class where oid = to_regclass('model_files')`;
  return found === undefined ? [] : await selectFiles(sql);
}
