import { basename } from "node:path";
import type { Database, Sql } from "../database/mod.ts";
import { checkInBucket } from "./_bucket_transfers.ts";
import { checkStoredFile, isStoredAs, type OnProgress, pathOfFile, type StoredFile } from "./file_store.ts";
import { listFiles, type ModelsPlace, modelsFolderOf, openModelsBucket } from "./model_files.ts";

/**
 * Reads every stored file and compares it with the registry: with a bucket the file in it, and its copy in the folder
 * if there is one. Changes nothing. The `problem` of a file that is intact is undefined. `unnamed` are the files that
 * belong to no version.
 */
export async function verifyFiles(
  database: Database,
  place: ModelsPlace,
  { onProgress }: { readonly onProgress: OnProgress },
) {
  // In this order, so that a file that is added in the meantime is not reported as unnamed.
  const stored = await listFiles(place);
  const hosted = await database.query(selectHosted);
  const bucket = openModelsBucket(place);
  const total = hosted.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let begun = 0;
  const files: ((typeof hosted)[number] & { readonly problem: string | undefined })[] = [];
  for (const file of hosted) {
    let done = begun;
    const onBytes = (bytes: number) => {
      done += bytes;
      onProgress(Math.min(done, total), total);
    };
    const inFolder = await checkStoredFile(pathOfFile(modelsFolderOf(place), file.sha256), file, onBytes);
    const inCache = inFolder === undefined || inFolder === "missing" ? undefined : "damaged in the cache";
    const problem = bucket ? ((await checkInBucket(bucket, file, onBytes)) ?? inCache) : inFolder;
    begun += file.sizeBytes;
    files.push({ ...file, problem });
  }
  const named = new Set(hosted.map(({ sha256 }) => sha256));
  const isNamed = (path: string) => named.has(basename(path)) && isStoredAs(path);
  return { files, unnamed: stored.filter(({ path }) => !isNamed(path)) };
}

/** Reads the registered files, each with `name version` of the versions that have it. */
function selectHosted(sql: Sql) {
  return sql<(StoredFile & { readonly versions: readonly string[] })[]>`
    select f.sha256, f.size_bytes as "sizeBytes",
           json_agg(m.name || ' ' || v.version order by m.name collate "C", v.created_at) as versions
      from model_files f
      join model_versions v on v.file = f.sha256
      join models m on m.id = v.model_id
     group by f.sha256
     order by min(m.name collate "C"), f.sha256`;
}
