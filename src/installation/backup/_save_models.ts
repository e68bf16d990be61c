/**
 * Saves the model files of an installation as far as possible: a file that is missing or damaged, and a bucket that does
 * not answer, must not stop the backup of the database. What cannot be saved is named with its reason.
 */
import { createHash } from "node:crypto";
import { stat, utimes } from "node:fs/promises";
import { DAY_MS } from "../../base/calendar.ts";
import { FILE_REASONS, reasonOf } from "../../base/system_error.ts";
import { BucketFailure } from "../../models/bucket/mod.ts";
import {
  checkStoredFile,
  type FileCopy,
  keepFile,
  listCopies,
  locateFile,
  type ModelsPlace,
  type StoredFile,
} from "../../models/mod.ts";
import { BackupFailure } from "./_errors.ts";
import { explain, FileFailure } from "./_files.ts";
import { modelName } from "./format.ts";
import type { Watch } from "./progress.ts";

export type ModelSaver = ReturnType<typeof createModelSaver>;

interface SaverOptions {
  readonly models: ModelsPlace;
  /** The folder that keeps the files; undefined if they go into the backup itself. */
  readonly besideFolder: string | undefined;
  readonly now: Date;
  readonly watch: Watch;
}

/** Thrown for a copy of a file that cannot be read, or that has other bytes. The message is the reason as a phrase. */
class BadCopy extends Error {}

/** A copy in the folder of backups is read again after this time, so that damage to it is found and repaired. */
const READ_AGAIN_MS = DAY_MS;
/** After so many failures one after another, the bucket is not asked again: each can take minutes. */
const MOST_BUCKET_FAILURES = 3;

export function createModelSaver({ models, besideFolder, now, watch }: SaverOptions) {
  /** By SHA-256: why the file cannot be saved, or the copy that is good. */
  const outcomes = new Map<string, string | FileCopy | undefined>();
  let bucketFailures = 0;

  async function saveOne(file: StoredFile): Promise<string | FileCopy | undefined> {
    if (besideFolder === undefined) return await findGood(file, (bytes) => drain(bytes));
    const problem = await checkKept(besideFolder, file);
    if (problem === undefined) return undefined;
    const found = await findGood(file, (bytes) => keep(besideFolder, file, bytes));
    if (typeof found !== "string") return undefined;
    return problem === "missing" ? found : `${found}; the copy in ${besideFolder} is ${problem}, too`;
  }

  /** Returns the first copy with the right bytes, of which `use` could make use; otherwise why there is none. */
  async function findGood(
    file: StoredFile,
    use: (bytes: AsyncIterable<Buffer>) => Promise<void>,
  ): Promise<string | FileCopy> {
    const reasons: string[] = [];
    for (const copy of await listCopies(models, file)) {
      if (copy.isInBucket && bucketFailures >= MOST_BUCKET_FAILURES) {
        reasons.push(`the bucket failed ${MOST_BUCKET_FAILURES} times before`);
        continue;
      }
      try {
        await use(readWhole(copy, file, watch));
        if (copy.isInBucket) bucketFailures = 0;
        return copy;
      } catch (error) {
        if (!(error instanceof BadCopy || error instanceof FileFailure)) throw error;
        if (copy.isInBucket) bucketFailures++;
        reasons.push(error.message);
      }
    }
    return reasons.join(", and ");
  }

  /** Copies the file into the folder of backups, in place of a damaged copy, and reads the new copy again. */
  async function keep(folder: string, file: StoredFile, bytes: AsyncIterable<Buffer>): Promise<void> {
    await explain(`it cannot be written into ${folder}`, () =>
      keepFile(folder, bytes, { sizeBytes: file.sizeBytes, onProgress() {} }, async (_, path) => {
        const problem = await checkStoredFile(path, file, watchCheck(file));
        if (problem === undefined) return undefined;
        throw new FileFailure(`the copy in ${folder} reads back ${problem}`);
      }),
    );
  }

  /** Returns what is wrong with the copy in the folder of backups; undefined if it is good. */
  async function checkKept(folder: string, file: StoredFile) {
    const located = await locateFile(folder, file);
    if (typeof located === "string") return located;
    const { mtimeMs } = await stat(located.path);
    const ageMs = now.getTime() - mtimeMs;
    if (ageMs >= 0 && ageMs < READ_AGAIN_MS) return undefined;
    const problem = await checkStoredFile(located.path, file, watchCheck(file));
    // The time of the file is when it was last read. Without it, the next backup reads the file again.
    if (problem === undefined) await utimes(located.path, now, now).catch(() => {});
    return problem;
  }

  function watchCheck({ sha256, sizeBytes: of }: StoredFile) {
    let done = 0;
    return (bytes: number) => {
      done += bytes;
      watch.onProgress({ doing: "checking", what: modelName(sha256), done, of });
    };
  }

  return {
    /** Saves the files that it has not seen yet; or finds the good copies of those that go into the backup itself. */
    async save(files: readonly StoredFile[]): Promise<void> {
      for (const file of files)
        if (!outcomes.has(file.sha256)) outcomes.set(file.sha256, await saveOne(file));
    },
    /** Returns why a file cannot be saved, as a phrase; undefined if it can. */
    problemOf({ sha256 }: StoredFile): string | undefined {
      const outcome = outcomes.get(sha256);
      return typeof outcome === "string" ? outcome : undefined;
    },
    /** Reads the good copy of a file that goes into the backup itself; throws if it is not good any more. */
    read(file: StoredFile): AsyncIterable<Buffer> {
      const copy = outcomes.get(file.sha256);
      if (typeof copy !== "object") throw new Error("Only a file with a good copy can be read");
      return readProven(copy, file, watch);
    },
  };
}

/** Yields a copy of a file that was good when it was read before; throws if it is not good any more. */
export async function* readProven(copy: FileCopy, file: StoredFile, watch: Watch): AsyncGenerator<Buffer> {
  try {
    yield* readWhole(copy, file, watch);
  } catch (error) {
    if (!(error instanceof BadCopy)) throw error;
    throw new BackupFailure(`the model file ${file.sha256} changed meanwhile: ${error.message}; try again`);
  }
}

async function drain(bytes: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of bytes);
}

/** Yields a copy of a file; throws {@linkcode BadCopy} at its end, or earlier, if it has other bytes. */
async function* readWhole(
  copy: FileCopy,
  { sha256, sizeBytes }: StoredFile,
  watch: Watch,
): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  let done = 0;
  try {
    for await (const bytes of copy.read()) {
      hash.update(bytes);
      done += bytes.length;
      if (done > sizeBytes) break;
      watch.onProgress({ doing: "saving", what: modelName(sha256), done, of: sizeBytes });
      yield bytes;
    }
  } catch (error) {
    if (error instanceof BucketFailure) throw new BadCopy(error.message);
    const isSystem = error instanceof Error && "syscall" in error;
    throw isSystem ? new BadCopy(reasonOf(error, REASONS)) : error;
  }
  if (done !== sizeBytes || hash.digest("hex") !== sha256) {
    throw new BadCopy(copy.isInBucket ? "its object in the bucket is damaged" : "it is damaged");
  }
}

const REASONS = { ...FILE_REASONS, ENOENT: "it is missing", ENOTDIR: "it is missing" };
