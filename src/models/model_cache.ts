/**
 * The folder of model files as a cache of the bucket, for the service.
 *
 * A file that is asked for and not in the folder is fetched once for all who wait, checked by its SHA-256, and then sent
 * from the folder like any other. Who has waited for three seconds is told to come again, while the fetch goes on. When
 * the folder is full, the files that were used least recently leave it: never one that is being read, by this process or
 * another one on the folder, and never one that the bucket does not have.
 *
 * The time of use is the modification time of the file, so all processes on the folder see it, also after a restart.
 */
import { existsSync, rmSync, statSync } from "node:fs";
import { utimes } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Bucket, BucketFailure } from "../bucket/mod.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { reasonOf } from "../system_error.ts";
import { type FileProblem, isStoredAs, locateFile, type StoredFile } from "./file_store.ts";
import {
  fetchFile,
  listFiles,
  type ModelsPlace,
  makeStore,
  modelsFolderOf,
  openModelsBucket,
} from "./model_files.ts";

/** The files that this service sends. */
export interface ServedFiles {
  /** Returns the path of a file in the folder, or why it cannot be sent now. */
  locate(file: StoredFile): Promise<{ readonly path: string } | FileProblem | "coming" | "unreachable">;
  /** Keeps the file at a path until `isOver` returns true. */
  hold(path: string, isOver: () => boolean): void;
  /** Returns how many files were found in the folder, fetched and so on; undefined without a bucket. */
  stats(): Readonly<Record<string, number>> | undefined;
  /** Stops the fetches in progress. */
  stop(): Promise<void>;
}

/** While this file is in the folder, no file leaves it: `models move --to folder` makes it. */
export const KEEP_ALL = ".keep-all";

/** Together with the check of the key, an answer comes within 5 s. */
const WAIT_MS = 3_000;
/** Each takes some parts of a file in memory. */
const MOST_FETCHES = 4;
/** Files that are being read are marked as used this often. A file that was used within the second time stays. */
const MARK_MS = 2_000;
const IN_USE_MS = 15_000;

interface CacheOptions {
  readonly place: ModelsPlace;
  readonly clock: Clock;
  readonly log: Log;
}

/** Opens the files for a service. Refuses settings of a bucket that cannot be used; sends nothing to it. */
export function openServedFiles({ place, clock, log }: CacheOptions): ServedFiles | Refusal {
  const folder = modelsFolderOf(place);
  try {
    const bucket = openModelsBucket(place);
    if (bucket !== undefined) return createModelCache(bucket, { place, clock, log });
  } catch (error) {
    if (!(error instanceof BucketFailure)) throw error;
    return refuse("INVALID_REQUEST", `Cannot serve: ${error.message}`);
  }
  return {
    locate: (file) => locateFile(folder, file),
    hold() {},
    stats: () => undefined,
    stop: async () => {},
  };
}

/** Stays one long function: its closures share the fetches, the readers and the counts. */
function createModelCache(bucket: Bucket, { place, clock, log }: CacheOptions): ServedFiles {
  const folder = modelsFolderOf(place);
  const mostBytes = place.modelsCacheBytes ?? Number.POSITIVE_INFINITY;
  const stopping = new AbortController();
  const fetches = new Map<string, Promise<boolean>>();
  const readers = new Set<{ readonly path: string; readonly isOver: () => boolean }>();
  const counts = { found: 0, fetched: 0, failed: 0, evicted: 0 };
  /** The bytes of the files that are being fetched and have room. */
  let reservedBytes = 0;
  /** One at a time, so that two fetches do not count on the same room. */
  let makingRoom: Promise<unknown> = Promise.resolve();

  async function markUsed(path: string): Promise<void> {
    await utimes(path, new Date(), new Date());
  }

  /** Returns the place of a file in the folder, and marks it as used. */
  async function find(file: StoredFile): Promise<{ readonly path: string } | undefined> {
    const found = await locateFile(folder, file);
    if (typeof found === "string") return undefined;
    // If it leaves at this moment, it is fetched again.
    return await markUsed(found.path).then(
      () => found,
      () => undefined,
    );
  }

  async function locate(file: StoredFile): ReturnType<ServedFiles["locate"]> {
    const found = await find(file);
    if (found !== undefined) {
      counts.found++;
      return found;
    }
    const { sha256 } = file;
    let fetching = fetches.get(sha256);
    if (fetching === undefined) {
      if (stopping.signal.aborted) return "unreachable";
      if (fetches.size >= MOST_FETCHES) return "coming";
      fetching = fetchOnce(file).finally(() => fetches.delete(sha256));
      fetches.set(sha256, fetching);
    }
    const isThere = await Promise.race([fetching, sleep(WAIT_MS, "not yet", { ref: false })]);
    if (isThere === "not yet") return "coming";
    return (isThere && (await find(file))) || "unreachable";
  }

  /** Fetches a file into the folder; returns whether it is there. Never throws. */
  async function fetchOnce(file: StoredFile): Promise<boolean> {
    const { sha256, sizeBytes } = file;
    let ownBytes = 0;
    try {
      await makeStore(place, clock.now());
      const room = makingRoom.then(() => makeRoom(sizeBytes));
      makingRoom = room.catch(() => {});
      await room;
      ownBytes = sizeBytes;
      await fetchFile(bucket, folder, { ...file, onProgress() {}, signal: stopping.signal });
      counts.fetched++;
      return true;
    } catch (error) {
      counts.failed++;
      if (!stopping.signal.aborted) {
        const reason = reasonOf(error, { ENOSPC: `the disk of ${folder} is full` });
        const mend = "see `claviger doctor`; `claviger models verify` reads every file in the bucket";
        const facts = { sha256, bucket: bucket.url, reason, mend };
        log.error("Cannot fetch the file of a model", facts, { kind: { sha256 } });
      }
      return false;
    } finally {
      reservedBytes -= ownBytes;
    }
  }

  /** Removes what was used least recently until the bytes fit, and reserves their room. Throws if they cannot fit now. */
  async function makeRoom(neededBytes: number): Promise<void> {
    const all = await listFiles({ ...place, modelsBucket: undefined });
    const files = all.filter(({ path }) => isStoredAs(path));
    let total = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, reservedBytes + neededBytes);
    files.sort((one, other) => one.changedAt.getTime() - other.changedAt.getTime());
    for (const { path, at, sizeBytes } of existsSync(join(folder, KEEP_ALL)) ? [] : files) {
      if (total <= mostBytes) break;
      // The only copy of a file is never removed.
      if ((await bucket.sizeOf(path)) !== sizeBytes) continue;
      const usedAtMs = statSync(at, { throwIfNoEntry: false })?.mtimeMs ?? 0;
      if (usedAtMs > Date.now() - IN_USE_MS) continue;
      // At once after that look, so that nobody finds it in between.
      rmSync(at, { force: true });
      total -= sizeBytes;
      counts.evicted++;
    }
    if (total > mostBytes) {
      throw new Error(
        "the cache is full of files that are being read, or too small for it; raise CLAVIGER_MODELS_CACHE_GB",
      );
    }
    reservedBytes += neededBytes;
  }

  const marking = setInterval(() => {
    for (const reader of readers) {
      if (reader.isOver()) readers.delete(reader);
      else void markUsed(reader.path).catch(() => {});
    }
  }, MARK_MS);
  marking.unref();

  return {
    locate,
    hold: (path, isOver) => void readers.add({ path, isOver }),
    stats: () => counts,
    async stop() {
      clearInterval(marking);
      stopping.abort();
      await Promise.all(fetches.values());
    },
  };
}
