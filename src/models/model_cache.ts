/**
 * The folder of model files as a cache of the bucket, for the service.
 *
 * A file that is asked for and not in the folder is fetched once for all who wait, checked by its SHA-256, and then
 * sent from the folder like any other. A client that has waited for three seconds is told to come again, while the
 * fetch goes on. When the folder is full, the files that were used least recently leave it: never one that a license
 * holds (`file_holds.ts` says what that is), and never one that the bucket does not have.
 *
 * The time of use is the modification time of the file, so all processes on the folder see it, also after a restart.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { reasonOf } from "../base/system_error.ts";
import { fetchFile } from "./_bucket_transfers.ts";
import { type Bucket, BucketFailure, openBucket } from "./bucket/mod.ts";
import { makeRoom, markUsed } from "./cache_room.ts";
import { createFileHolds, type FetchTurn, type Wanted } from "./file_holds.ts";
import { type FileProblem, locateFile, type StoredFile } from "./file_store.ts";
import { type ModelsPlace, modelsFolderOf } from "./model_files.ts";
import { makeStore } from "./store_bytes.ts";

/** The files that this service sends. */
export interface ServedFiles {
  /**
   * Returns the path of a file in the folder, where it stays until the request is over, or why it cannot be sent now.
   * Refuses a license that uses more than its share of the cache.
   */
  locate(
    file: StoredFile,
    wanted: Wanted,
  ): Promise<{ readonly path: string } | FileProblem | "coming" | "unreachable" | Refusal>;
  /** Returns how many files were found in the folder, fetched and so on; undefined without a bucket. */
  stats(): Readonly<Record<string, number>> | undefined;
  /** Stops the fetches in progress. */
  stop(): Promise<void>;
}

/** Together with the check of the key, an answer comes within 5 s. */
const WAIT_MS = 3_000;
/** Each takes some parts of a file in memory. */
const MOST_FETCHES = 4;
/** So many requests of one license wait until it holds less: as many connections as a client opens for one file. */
const MOST_WAITING = 16;
const LOOK_AGAIN_MS = 100;

const HOLDS_ITS_SHARE = refuse(
  "SERVICE_UNAVAILABLE",
  "Other downloads with the keys of this license are in progress, and the service has room for no further file for it: try " +
    "again when one of them has ended",
  { retryAfterSeconds: 5 },
);
const FETCHED_OFTEN =
  "This license had as many files fetched from the storage as it may in an hour: wait as Retry-After says";

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
    stats: () => undefined,
    stop: async () => {},
  };
}

/** Stays one long function: its closures share the fetches, the holds and the counts. */
function createModelCache(
  bucket: Bucket,
  { place, clock, log, stopping }: CacheOptions & { readonly stopping: AbortController },
): ServedFiles {
  const folder = modelsFolderOf(place);
  const cacheBytes = place.modelsCacheBytes ?? Number.POSITIVE_INFINITY;
  const holds = createFileHolds({ folder, cacheBytes, clock });
  /** The fetches of this process by SHA-256, and by license. */
  const fetches = new Map<string, Promise<boolean>>();
  const fetchesOf = new Map<string, Promise<boolean>>();
  /** How many requests of a license wait until it holds less. */
  const waiting = new Map<string, number>();
  const counts = { found: 0, fetched: 0, failed: 0, refused: 0 };
  /** One at a time, so that two fetches do not count on the same room. */
  let makingRoom: Promise<unknown> = Promise.resolve();

  /** Returns the place of a file in the folder, and marks it as used. */
  async function find(file: StoredFile): Promise<{ readonly path: string } | undefined> {
    const found = await locateFile(folder, file);
    // If it leaves at this moment, it is fetched again.
    return typeof found !== "string" && markUsed(found.path) ? found : undefined;
  }

  async function locate(file: StoredFile, wanted: Wanted): ReturnType<ServedFiles["locate"]> {
    const late = sleep(WAIT_MS, "late", { ref: false });
    if (!(await takeHold(file, wanted, late))) return HOLDS_ITS_SHARE;
    for (let isFetched = false; ; ) {
      const found = await find(file);
      if (found !== undefined) {
        if (!isFetched) counts.found++;
        holds.noteSent(file, wanted);
        return found;
      }
      if (isFetched || stopping.signal.aborted) return "unreachable";
      const running = fetches.get(file.sha256);
      const own = running ?? fetchesOf.get(wanted.holder);
      const fetching = own ?? beginFetch(file, wanted.holder);
      if (!(fetching instanceof Promise)) return fetching;
      const isThere = await Promise.race([fetching, late]);
      if (isThere === "late") return "coming";
      // The license had another file fetched, so this one is next.
      if (running === undefined && own !== undefined) continue;
      if (!isThere) return "unreachable";
      isFetched = true;
    }
  }

  /** Holds a file for a license, and waits for a moment if the license holds its share. */
  async function takeHold(file: StoredFile, wanted: Wanted, late: Promise<string>): Promise<boolean> {
    const { holder } = wanted;
    if (tryToHold(file, wanted)) return true;
    const others = waiting.get(holder) ?? 0;
    if (others >= MOST_WAITING) return refuseShare();
    waiting.set(holder, others + 1);
    try {
      for (;;) {
        const isLate = await Promise.race([late, sleep(LOOK_AGAIN_MS, false, { ref: false })]);
        if (isLate || wanted.isOver()) return refuseShare();
        if (tryToHold(file, wanted)) return true;
      }
    } finally {
      const left = (waiting.get(holder) ?? 1) - 1;
      if (left === 0) waiting.delete(holder);
      else waiting.set(holder, left);
    }
  }

  function refuseShare(): false {
    counts.refused++;
    return false;
  }

  function tryToHold(file: StoredFile, wanted: Wanted): boolean {
    try {
      return holds.take(file, wanted);
    } catch {
      // The disk has no room for the mark. The file may leave then, which is better than not to send it.
      return true;
    }
  }

  /** Begins to fetch a file for a license. Returns why the file cannot be fetched now, or a promise that never rejects. */
  function beginFetch(
    file: StoredFile,
    holder: string,
  ): Promise<boolean> | "coming" | "unreachable" | Refusal {
    if (fetches.size >= MOST_FETCHES) return "coming";
    const { sha256 } = file;
    try {
      const turn = holds.beginFetch(holder, file);
      if (turn === "busy") return "coming";
      if (typeof turn === "number") {
        counts.refused++;
        return refuse("RATE_LIMIT_EXCEEDED", FETCHED_OFTEN, { retryAfterSeconds: turn });
      }
      const fetching = fetchOnce(file, turn).finally(() => {
        fetches.delete(sha256);
        fetchesOf.delete(holder);
      });
      fetches.set(sha256, fetching);
      fetchesOf.set(holder, fetching);
      return fetching;
    } catch (error) {
      noteFailure(file, error);
      return "unreachable";
    }
  }

  /** Fetches a file into the folder; returns whether it is there. Never throws. */
  async function fetchOnce(file: StoredFile, turn: FetchTurn): Promise<boolean> {
    let [isThere, hasRead] = [false, false];
    try {
      await makeStore(place, clock.now());
      const room = makingRoom.then(() => reserve(file, turn));
      makingRoom = room.catch(() => {});
      await room;
      const onProgress = () => {
        hasRead = true;
      };
      await fetchFile(bucket, folder, { ...file, onProgress });
      counts.fetched++;
      isThere = true;
    } catch (error) {
      noteFailure(file, error);
    }
    try {
      turn.end({ isThere, hasRead });
    } catch (error) {
      noteFailure(file, error);
    }
    return isThere;
  }

  function noteFailure({ sha256 }: StoredFile, error: unknown): void {
    counts.failed++;
    if (stopping.signal.aborted) return;
    const reason = reasonOf(error, { ENOSPC: `the disk of ${folder} is full` });
    const mend = "see `claviger doctor`; `claviger models verify` reads every file in the bucket";
    const facts = { sha256, bucket: bucket.url, reason, mend };
    log.error("Cannot fetch the file of a model", facts, { kind: { sha256 } });
  }

  /** Reserves the room of a file that is fetched. Throws if it does not fit now. */
  async function reserve({ sizeBytes }: StoredFile, turn: FetchTurn): Promise<void> {
    holds.endWhatIsOver();
    const refused = await makeRoom(bucket, place, sizeBytes);
    if (refused !== undefined) throw new Error(refused);
    turn.reserve();
  }

  return {
    locate,
    stats: () => counts,
    async stop() {
      stopping.abort();
      await Promise.all(fetches.values());
      holds.stop();
    },
  };
}
