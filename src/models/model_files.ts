/**
 * The model files of an installation: in the folder `models` of the data folder, or in the folder that all hosts share.
 * With a bucket, the bucket has all files under the same names, and the folder of each host is a cache of them.
 */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { pathInData } from "../base/host/mod.ts";
import type { Sql } from "../database/mod.ts";
import { type Bucket, type BucketSettings, openBucket } from "./bucket/mod.ts";
import { type FileProblem, listStored, locateFile, pathOfFile, type StoredFile } from "./file_store.ts";

/** Where the model files of an installation are, by its settings. */
export interface ModelsPlace {
  readonly dataDir: string;
  /** The folder on a mount that all hosts share; by default the folder `models` in the data folder. Absolute. */
  readonly modelsDir?: string | undefined;
  /** The bucket of all files; then the folder is a cache of it. */
  readonly modelsBucket?: BucketSettings | undefined;
  /** How many bytes of the bucket's files the folder keeps; by default all of them. */
  readonly modelsCacheBytes?: number;
}

/** Returns the folder of the model files. */
export function modelsFolderOf({ dataDir, modelsDir }: ModelsPlace): string {
  return modelsDir ?? pathInData(dataDir, "models");
}

/** Opens the bucket of the files; undefined if they are in the folder alone. Throws if its settings cannot be used. */
export function openModelsBucket({ modelsBucket }: ModelsPlace): Bucket | undefined {
  return modelsBucket && openBucket(modelsBucket);
}

/** One of the copies of a file that an installation can have. */
export interface FileCopy {
  readonly isInBucket: boolean;
  /** Reads its bytes, and compares nothing. Throws if it is missing. */
  read(): AsyncIterable<Buffer>;
}

/** Lists where a file can be, the nearest first: in the folder, and with a bucket in the bucket. */
export async function listCopies(place: ModelsPlace, file: StoredFile): Promise<FileCopy[]> {
  const folder = modelsFolderOf(place);
  const here: FileCopy = {
    isInBucket: false,
    read: () => createReadStream(pathOfFile(folder, file.sha256), { highWaterMark: 1024 * 1024 }),
  };
  if (place.modelsBucket === undefined) return [here];
  const there: FileCopy = {
    isInBucket: true,
    async *read() {
      yield* openBucket(place.modelsBucket as BucketSettings).read(
        pathOfFile("", file.sha256),
        file.sizeBytes,
      );
    },
  };
  const isHere = typeof (await locateFile(folder, file)) !== "string";
  return isHere ? [here, there] : [there];
}

/**
 * Returns the nearest copy of a file that has the right size, or why there is none. Damage inside the file is not detected
 * here.
 */
export async function findCopy(place: ModelsPlace, file: StoredFile): Promise<FileCopy | FileProblem> {
  const [nearest] = await listCopies(place, file);
  if (nearest?.isInBucket) {
    const sizeBytes = await openModelsBucket(place)?.sizeOf(pathOfFile("", file.sha256));
    if (sizeBytes === file.sizeBytes) return nearest;
    return sizeBytes === undefined ? "missing" : "changed";
  }
  const found = await locateFile(modelsFolderOf(place), file);
  if (typeof found === "string") return found;
  return nearest ?? "missing";
}

/** Reads the files that the registry has, in the order of their SHA-256. */
export function selectFiles(sql: Sql) {
  return sql<StoredFile[]>`
    select sha256, size_bytes as "sizeBytes" from model_files order by sha256 collate "C"`;
}

/** Reads which versions of models have a file, each as `name version`. */
export async function selectVersionsOf(sql: Sql, { sha256 }: Pick<StoredFile, "sha256">): Promise<string[]> {
  const rows = await sql<{ version: string }[]>`
    select m.name || ' ' || v.version as version
      from model_versions v join models m on m.id = v.model_id
     where v.file = ${sha256}
     order by m.name collate "C", v.created_at`;
  return rows.map(({ version }) => version);
}

/** A file in the folder or in the bucket. */
export interface FoundFile {
  /** Below the folder or the bucket. */
  readonly path: string;
  /** The whole path or address, for messages. */
  readonly at: string;
  readonly sizeBytes: number;
  readonly changedAt: Date;
  /** The bucket, if the file is there. */
  readonly bucket?: Bucket;
}

/** Lists the files in the folder and in the bucket, without unfinished copies. */
export async function listFiles(place: ModelsPlace): Promise<FoundFile[]> {
  const folder = modelsFolderOf(place);
  const bucket = openModelsBucket(place);
  const found: FoundFile[] = [];
  for (const path of await listStored(folder)) {
    const at = join(folder, path);
    // It may have been removed in the meantime.
    const seen = await stat(at).catch(() => undefined);
    if (seen !== undefined) found.push({ path, at, sizeBytes: seen.size, changedAt: seen.mtime });
  }
  for await (const { name, ...object } of bucket?.list() ?? [])
    found.push({ path: name, at: `${bucket?.url}/${name}`, ...object, ...(bucket && { bucket }) });
  return found;
}
