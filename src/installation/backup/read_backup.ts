/**
 * Reads a backup from its first byte to its last, and compares everything with its sums. The reader refuses every
 * file that differs from the writer's format, so it never accepts a changed file.
 */
import { createHash } from "node:crypto";
import { pipeline } from "node:stream";
// Imported as a namespace: with a named import, a Node without zstd would fail before the program can say which
// Node it needs.
import * as zlib from "node:zlib";
import * as v from "valibot";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { codeOf } from "../../base/system_error.ts";
import { isLockTimeout } from "../../database/mod.ts";
import { checkStoredFile, isSha256, pathOfFile, type StoredFile } from "../../models/mod.ts";
import { BackupFailure, BadBackup, damaged, NotAdmitted } from "./_errors.ts";
import { explained, FileFailure } from "./_files.ts";
import { unseal } from "./_seal.ts";
import { createRowSum } from "./_sums.ts";
import { type BackupEntry, readTar, type TarReader } from "./_tar.ts";
import {
  type BackedUpTable,
  FORMAT,
  FORMAT_VERSION,
  HEAD_NAME,
  type Head,
  headSchema,
  modelName,
  partName,
  renderJson,
  SECRET_NAME,
  SUMS_NAME,
  type Sums,
  ZSTD_CHUNK_BYTES,
} from "./format.ts";
import type { Watch } from "./progress.ts";

/**
 * A section of a backup, in the order of the file. No section is proven correct before `sums` has arrived. Read the
 * content of a section before you ask for the next section, because its unread rest is skipped.
 */
type Section =
  | { readonly kind: "head"; readonly head: Head }
  | { readonly kind: "secret"; readonly text: string }
  /** All tables in the order of the head, including tables without rows. */
  | {
      readonly kind: "table";
      readonly table: BackedUpTable;
      readonly content: AsyncIterable<Buffer>;
      /** Returns the number of rows that were read so far. */
      readonly rows: () => number;
    }
  | ({ readonly kind: "model"; readonly content: AsyncIterable<Buffer> } & StoredFile)
  | { readonly kind: "sums"; readonly sums: Sums };

/** A backup that was completely read and is correct. */
export interface ProvenBackup {
  /** The folder beside it with model files, which were read, too; undefined if nobody asked for that. */
  readonly besideFolder: string | undefined;
  readonly path: string;
  /** The path as text for messages, or `standard input`. */
  readonly name: string;
  readonly head: Head;
  /** The sums, without the model files beside it if they were not read. */
  readonly sums: Sums;
  /** The root secret's text; undefined if the backup was taken without it. */
  readonly secret: string | undefined;
  /** The sealed canary, which proves a secret. */
  readonly canary: string | undefined;
}

const LOCKED = "another process is changing the tables; try again when it is done";
const MAX_JSON_BYTES = 64 * 1024 * 1024;
const MAX_SECRET_BYTES = 4_096;

interface VerifyOptions extends Watch {
  readonly name?: string;
  /** The folder in which the model files beside the backup are, to read them, too. */
  readonly besideFolder?: string | undefined;
}

/** Reads a backup completely, without a database; refuses a damaged or incomplete file. */
export async function verifyBackup(
  path: string,
  { name = path, besideFolder, ...watch }: VerifyOptions,
): Promise<ProvenBackup | Refusal> {
  let head: Head | undefined;
  let sums: Sums | undefined;
  let secret: string | undefined;
  let canary: string | undefined;
  try {
    for await (const section of readBackup(path)) {
      if (section.kind === "head") head = section.head;
      else if (section.kind === "secret") secret = section.text;
      else if (section.kind === "sums") sums = section.sums;
      else if (section.kind === "table" && section.table.name === CANARY_TABLE) {
        canary = await readCanary(section.table, section.content);
      } else {
        const what = section.kind === "table" ? section.table.name : modelName(section.sha256);
        let done = 0;
        for await (const bytes of section.content) {
          done = section.kind === "table" ? section.rows() : done + bytes.length;
          watch.onProgress({ doing: "checking", what, done, of: undefined });
        }
      }
    }
    const files = head?.beside?.files ?? [];
    if (besideFolder !== undefined) await checkBeside(files, besideFolder, watch);
    else if (head?.beside !== undefined && sums !== undefined) sums = { ...sums, models: [] };
  } catch (error) {
    return toRefusal(error, name, "verify");
  }
  if (head === undefined || sums === undefined) throw new Error("A backup ended without its sums");
  return { path, name, head, sums, secret, canary, besideFolder };
}

async function checkBeside(files: Sums["models"], folder: string, watch: Watch): Promise<void> {
  for (const { sha256, bytes: of } of files) {
    let done = 0;
    const path = pathOfFile(folder, sha256);
    const problem = await checkStoredFile(path, { sha256, sizeBytes: of }, (bytes) => {
      done += bytes;
      watch.onProgress({ doing: "checking", what: modelName(sha256), done, of });
    });
    if (problem !== undefined) throw new BadBackup(`its model file ${path} is ${problem}; ${OTHER_COPY}`);
  }
}

const OTHER_COPY =
  "use another copy of it (if you remove it, the next backup writes it again); `claviger restore -` restores the backup " +
  "from standard input, without model files";

const CANARY_TABLE = "secret_canary";

/** Returns the sealed text in the only row of the table; undefined if the table has no row. */
async function readCanary(
  { columns }: BackedUpTable,
  content: AsyncIterable<Buffer>,
): Promise<string | undefined> {
  let row: Buffer = Buffer.alloc(0);
  for await (const bytes of content) row = Buffer.concat([row, bytes]).subarray(0, MAX_SECRET_BYTES);
  return row.toString("utf8").split(/[\t\n]/)[columns.indexOf("sealed")] || undefined;
}

/** Turns an error whose cause the operator can remove into a refusal; throws every other error again. */
export function toRefusal(error: unknown, name: string, doing: "verify" | "back up" | "restore"): Refusal {
  if (error instanceof NotAdmitted) return refuse("DATA_LOST", error.message);
  if (error instanceof FileFailure) return refuse("INVALID_REQUEST", error.message);
  if (error instanceof BadBackup)
    return refuse("INVALID_REQUEST", `Cannot use the backup ${name}: ${error.message}`);
  if (error instanceof BackupFailure) return refuse("INVALID_REQUEST", `Cannot ${doing}: ${error.message}`);
  if (isLockTimeout(error)) return refuse("INVALID_REQUEST", `Cannot ${doing}: ${LOCKED}`);
  throw error;
}

/** Yields the sections in order. If any byte is wrong, it throws at the latest before the section `sums`. */
export async function* readBackup(path: string): AsyncGenerator<Section> {
  const bytes = decompress(path);
  try {
    yield* readSections(bytes);
  } finally {
    // Its reader may end early.
    await bytes.return(undefined);
  }
}

async function* readSections(source: AsyncIterable<Buffer>): AsyncGenerator<Section> {
  const whole = createHash("sha256");
  const tar = readTar(source, (bytes, entry) => {
    if (entry !== SUMS_NAME) whole.update(bytes);
  });
  let entry = await tar.next();
  const head = parseHead(await readSmall(tar, entry, { name: HEAD_NAME, most: MAX_JSON_BYTES }));
  yield { kind: "head", head };
  entry = await tar.next();
  if (head.secret) {
    const text = await readSmall(tar, entry, { name: SECRET_NAME, most: MAX_SECRET_BYTES });
    yield { kind: "secret", text: text.toString("utf8").trim() };
    entry = await tar.next();
  }
  const counted: Sums = { tables: [], models: [...(head.beside?.files ?? [])], sha256: "" };
  for (const table of head.tables) {
    const sum = createRowSum();
    const parts = async function* () {
      for (let number = 1; entry?.name === partName(table.name, number); number++) {
        for await (const bytes of tar.bytes()) {
          sum.add(bytes);
          yield bytes;
        }
        entry = await tar.next();
      }
    };
    yield* withContent((content) => ({ kind: "table", table, content, rows: sum.rows }), parts());
    counted.tables.push(sum.end(table.name));
  }
  while (head.models && entry?.name.startsWith(modelName(""))) {
    const { name, size: sizeBytes } = entry;
    const sha256 = name.slice(modelName("").length);
    if (!isSha256(sha256)) throw damaged(`${name} is not a model file`);
    const hashed = async function* () {
      const hash = createHash("sha256");
      for await (const bytes of tar.bytes()) {
        hash.update(bytes);
        yield bytes;
      }
      if (hash.digest("hex") !== sha256) throw damaged(`${name} was changed after the backup`);
    };
    yield* withContent((content) => ({ kind: "model", sha256, sizeBytes, content }), hashed());
    counted.models.push({ sha256, bytes: sizeBytes });
    entry = await tar.next();
  }
  // A copy of the hash, because the reader still adds later bytes to it.
  counted.sha256 = whole.copy().digest("hex");
  const stored = await readSmall(tar, entry, { name: SUMS_NAME, most: MAX_JSON_BYTES });
  if (!renderJson(counted).equals(stored)) throw damaged("it was changed after the backup");
  if ((await tar.next()) !== undefined) throw damaged(`there is a file after ${SUMS_NAME}`);
  yield { kind: "sums", sums: counted };
}

/** Reads what a backup is, and not its rows: whether it is whole is not known then. */
export async function readHead(path: string): Promise<Head> {
  const bytes = decompress(path);
  try {
    const tar = readTar(bytes, () => {});
    return parseHead(await readSmall(tar, await tar.next(), { name: HEAD_NAME, most: MAX_JSON_BYTES }));
  } finally {
    await bytes.return(undefined);
  }
}

/** Counts the keys of a backup, and reads it as far as that needs. */
export async function readKeyCount(path: string): Promise<number | undefined> {
  for await (const section of readBackup(path)) {
    if (section.kind !== "table" || section.table.name !== "keys") continue;
    for await (const _ of section.content);
    return section.rows();
  }
  return undefined;
}

/** Yields a section, and then skips the content that its reader has not read. */
async function* withContent(
  section: (content: AsyncIterable<Buffer>) => Section,
  content: AsyncGenerator<Buffer>,
): AsyncGenerator<Section> {
  yield section({ [Symbol.asyncIterator]: () => ({ next: () => content.next() }) });
  while (!(await content.next()).done);
}

async function readSmall(
  tar: TarReader,
  entry: BackupEntry | undefined,
  { name, most }: { readonly name: string; readonly most: number },
): Promise<Buffer> {
  if (entry?.name !== name) {
    if (name === HEAD_NAME) throw new BadBackup("it is no backup of Claviger");
    const found = entry === undefined ? "its end" : JSON.stringify(entry.name);
    throw damaged(`it has ${found} where ${name} should be`);
  }
  if (entry.size > most) throw damaged(`its ${name} is too large`);
  const chunks: Buffer[] = [];
  for await (const bytes of tar.bytes()) chunks.push(bytes);
  return Buffer.concat(chunks);
}

function parseHead(bytes: Buffer): Head {
  const found = parseJson(bytes);
  const newer = v.safeParse(v.object({ format: v.literal(FORMAT), format_version: v.number() }), found);
  if (newer.success && newer.output.format_version > FORMAT_VERSION) {
    throw new BadBackup(
      `a newer Claviger wrote it (format ${newer.output.format_version}); read it with that version`,
    );
  }
  const head = v.safeParse(headSchema, found);
  if (head.success) return head.output;
  throw damaged(`its ${HEAD_NAME} is not valid`);
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}

async function* decompress(path: string): AsyncGenerator<Buffer> {
  try {
    yield* pipeline(unseal(path), zlib.createZstdDecompress({ chunkSize: ZSTD_CHUNK_BYTES }), () => {});
  } catch (error) {
    const code = codeOf(error) ?? "";
    if (/^(ZSTD_|Z_)/.test(code)) throw damaged(`it cannot be decompressed (${code})`);
    throw explained(`Cannot read ${path}`, error);
  }
}
