import { basename } from "node:path";
import type { Database } from "../database/mod.ts";
import {
  checkStoredFile,
  type FileProblem,
  listStored,
  type OnProgress,
  pathOfFile,
  type StoredFile,
} from "./file_store.ts";

export interface CheckedFile extends StoredFile {
  /** `name version`, for each version that it is the file of. */
  readonly versions: readonly string[];
  /** What is wrong with it; undefined where nothing is. */
  readonly problem: FileProblem | undefined;
}

export interface Verification {
  readonly files: readonly CheckedFile[];
  /** What lies in the store and belongs to no version, by paths below it. */
  readonly unnamed: readonly string[];
}

/** Reads every stored file through and compares it with the registry. Changes nothing. */
export async function verifyFiles(
  database: Database,
  folder: string,
  { onProgress }: { readonly onProgress: OnProgress },
): Promise<Verification> {
  // In this order, so that what is added meanwhile is not taken for unnamed.
  const stored = await listStored(folder);
  const hosted = await listFiles(database);
  const total = hosted.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let begun = 0;
  const files: CheckedFile[] = [];
  for (const file of hosted) {
    let done = begun;
    const problem = await checkStoredFile(folder, file, (bytes) => {
      done += bytes;
      onProgress(Math.min(done, total), total);
    });
    begun += file.sizeBytes;
    files.push({ ...file, problem });
  }
  const named = new Set(hosted.map(({ sha256 }) => sha256));
  const isNamed = (path: string) => named.has(basename(path)) && pathOfFile("", basename(path)) === path;
  return { files, unnamed: stored.filter((path) => !isNamed(path)) };
}

async function listFiles(database: Database): Promise<Omit<CheckedFile, "problem">[]> {
  return await database.query<Omit<CheckedFile, "problem">>(
    (sql) => sql`
      select f.sha256, f.size_bytes as "sizeBytes",
             json_agg(m.name || ' ' || v.version order by m.name collate "C", v.created_at) as versions
        from model_files f
        join model_versions v on v.file = f.sha256
        join models m on m.id = v.model_id
       group by f.sha256
       order by min(m.name collate "C"), f.sha256`,
  );
}
