/**
 * The folder of model files as a cache of the bucket, for the service.
 *
 * A file that is asked for and not in the folder is fetched once for all who wait, checked by its SHA-256, and then
 * sent from the folder like any other. A client that has waited for three seconds is told to come again, while the
 * fetch goes on. When the folder is full, the files that were used least recently leave it: never one that is being
 * read, by this process or another one on the folder, and never one that the bucket does not have.
 *
 * The time of use is the modification time of the file, so all processes on the folder see it, also after a restart.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bucket, BucketFailure, openBucket } from "../bucket/mod.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { reasonOf } from "../system_error.ts";
import { type FileProblem, locateFile, type StoredFile } from "./file_store.ts";
import { fetchFile, type ModelsPlace, makeRoom, makeStore, markUsed, modelsFolderOf } from "./model_files.ts";

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

/** Together with the check of the key, an answer comes within 5 s. */
const WAIT_MS = 3_000;
/** Each takes some parts of a file in memory. */
const MOST_FETCHES = 4;
/** Files that are being read are marked as used this often. */
const MARK_MS = 2_000;

interface CacheOptions {
  readonly place: ModelsPlace;
  readonly clock: Clock;
  readonly log: Log;
}

/** Opens the files for a service. Refuses settings of a bucket that cannot be used; sends nothing to it. */
export function openServedFiles({ place, clock, log }: CacheOptions): ServedFiles | Refusal {
  const folder = modelsFolderOf(place);
  const { modelsBucket } = place;
  const stopping = new AbortController();
  try {
    if (modelsBucket !== undefined) {
      const bucket = openBucket({ ...modelsBucket, signal: stopping.signal });
      return createModelCache(bucket, { place, clock, log, stopping });
    }
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
function createModelCache(
  bucket: Bucket,
  { place, clock, log, stopping }: CacheOptions & { readonly stopping: AbortController },
): ServedFiles {
  const folder = modelsFolderOf(place);
  const fetches = new Map<string, Promise<boolean>>();
  const readers = new Set<{ readonly path: string; readonly isOver: () => boolean }>();
  const counts = { found: 0, fetched: 0, failed: 0 };
  /** The bytes of the files that are being fetched and have room. */
  let reservedBytes = 0;
  /** One at a time, so that two fetches do not count on the same room. */
  let makingRoom: Promise<unknown> = Promise.resolve();

  /** Returns the place of a file in the folder, and marks it as used. */
  async function find(file: StoredFile): Promise<{ readonly path: string } | undefined> {
    const found = await locateFile(folder, file);
    // If it leaves at this moment, it is fetched again.
    return typeof found !== "string" && markUsed(found.path) ? found : undefined;
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
      const room = makingRoom.then(() => reserve(sizeBytes));
      makingRoom = room.catch(() => {});
      await room;
      ownBytes = sizeBytes;
      await fetchFile(bucket, folder, { ...file, onProgress() {} });
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

  /** Reserves the room of a file that is fetched. Throws if it does not fit now. */
  async function reserve(neededBytes: number): Promise<void> {
    const refused = await makeRoom(bucket, place, reservedBytes + neededBytes);
    if (refused !== undefined) throw new Error(refused);
    reservedBytes += neededBytes;
  }

  const marking = setInterval(() => {
    for (const reader of readers) {
      if (reader.isOver()) readers.delete(reader);
      else markUsed(reader.path);
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
