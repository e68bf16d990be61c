/** Copies a model file from the folder to the bucket, and back. Compares each copy with its SHA-256. */
import { open } from "node:fs/promises";
import { type Bucket, BucketFailure } from "./bucket/mod.ts";
import {
  type FileProblem,
  hasBytes,
  keepFile,
  type OnProgress,
  pathOfFile,
  type StoredFile,
} from "./file_store.ts";

interface Transfer extends StoredFile {
  readonly onProgress: OnProgress;
}

/**
 * Puts the file at a path into the bucket, reads it back, and compares it with its SHA-256. A file that is there
 * already is only compared. Throws if the bucket does not have the right bytes afterwards.
 */
export async function putIntoBucket(
  bucket: Bucket,
  path: string,
  { onProgress, ...file }: Transfer,
): Promise<void> {
  const { sha256, sizeBytes } = file;
  const isThere = async () =>
    (await checkInBucket(bucket, file, () => onProgress(sizeBytes, sizeBytes))) === undefined;
  if (await isThere()) return;
  const from = await open(path);
  try {
    await bucket.write(pathOfFile("", sha256), sizeBytes, async (first, length) => {
      onProgress(first, sizeBytes);
      return (await from.read(Buffer.alloc(length), 0, length, first)).buffer;
    });
  } finally {
    await from.close();
  }
  if (await isThere()) return;
  await bucket.remove(pathOfFile("", sha256));
  throw new BucketFailure(
    bucket.url,
    "what it stored has another SHA-256 than the file, so it was removed; see `claviger models verify`",
  );
}

/** Reads a whole file in the bucket and returns its fault; undefined if it is intact. */
export async function checkInBucket(
  bucket: Bucket,
  file: StoredFile,
  onBytes: (bytes: number) => void,
): Promise<FileProblem | undefined> {
  const name = pathOfFile("", file.sha256);
  const sizeBytes = await bucket.sizeOf(name);
  if (sizeBytes === undefined) return "missing";
  const isRight =
    sizeBytes === file.sizeBytes && (await hasBytes(file, bucket.read(name, sizeBytes), onBytes));
  return isRight ? undefined : "changed";
}

/** Fetches a file from the bucket into the folder. Throws if the bucket has other bytes under its name. */
export async function fetchFile(
  bucket: Bucket,
  folder: string,
  { onProgress, sha256, sizeBytes }: Transfer,
): Promise<void> {
  const chunks = bucket.read(pathOfFile("", sha256), sizeBytes);
  await keepFile(folder, chunks, { sizeBytes, onProgress }, async (stored) => {
    if (stored.sha256 === sha256) return undefined;
    throw new BucketFailure(bucket.url, `it has other bytes under the name ${sha256}`);
  });
}
