/**
 * Which files stay in the cache, and for which license: so that no customer keeps the others from the cache.
 *
 * A license holds a file while bytes of it are sent to one of its keys. A file that was fetched from the bucket for a
 * license is held longer, so that its client can load it in pieces: until the client has asked for as many bytes as the
 * file has, or is silent for 15 s, or is too slow, which means: after the first 15 s it has asked for less than 1 MB a
 * second. What a license holds has at most a quarter of the bytes of the cache, or is one file. A fetch costs much more
 * than the range that a client asks for, so a license has one fetch at a time, and only so many in an hour.
 *
 * All processes on the folder must know this, so it is in files, which `_hold_marks.ts` describes.
 */
import { randomBytes } from "node:crypto";
import { HOUR_MS } from "../base/calendar.ts";
import type { Clock } from "../base/clock.ts";
import {
  deleteMark,
  deleteOldMarks,
  fetchingPathOf,
  holdPathOf,
  listFetches,
  listHolds,
  noteFetched,
  SILENCE_MS,
  writeLoneMark,
  writeMark,
} from "./_hold_marks.ts";
import type { StoredFile } from "./file_store.ts";

/** Who asks for a file, and for which part. */
export interface Wanted {
  /** The license by its keyed hash: letters, digits, `-` and `_`. */
  readonly holder: string;
  /** How many bytes of the file will be sent. */
  readonly bytes: number;
  /** Tells whether the request has been answered, or its client has gone. */
  readonly isOver: () => boolean;
}

/** A fetch in progress. */
export interface FetchTurn {
  /** Counts the fetch for an hour, and tells the other processes how much room it needs. */
  reserve(): void;
  /** Ends the fetch. One that has read nothing from the bucket is not counted. */
  end(how: { readonly isThere: boolean; readonly hasRead: boolean }): void;
}

/** Signs of life are renewed this often. */
const RENEW_MS = 2_000;
/** So many renewals later the marks that do not count any more are deleted. */
const RENEWALS_BETWEEN_CLEANINGS = 30;
/** A slower client loses a file between its requests when others need the room. */
const LEAST_BYTES_PER_MS = 1_000;
const SHARE_OF_LICENSE = 1 / 4;
/** No customer needs as many models in an hour. Each fetch is paid to the host of the bucket. */
const MOST_FETCHES_AN_HOUR = 240;
/** As many bytes as twice the cache: what is fetched a third time was evicted twice, so the cache is too small. */
const MOST_CACHES_AN_HOUR = 2;

interface Hold {
  readonly file: StoredFile;
  /** The path of its mark. */
  readonly path: string;
  readers: (() => boolean)[];
  /** By the monotonic clock; undefined if the file was not fetched for this license. */
  fetchedAtMs: number | undefined;
  lastAskedMs: number;
  askedBytes: number;
}

interface HoldsOptions {
  /** The folder of the cache. */
  readonly folder: string;
  readonly cacheBytes: number;
  readonly clock: Clock;
}

/**
 * Creates the holds of one process. The functions throw the errors of the file system.
 *
 * Stays one long function: its closures share the holds and the fetches.
 */
export function createFileHolds({ folder, cacheBytes, clock }: HoldsOptions) {
  const process = randomBytes(4).toString("hex");
  /** By license, then by SHA-256. */
  const holds = new Map<string, Map<string, Hold>>();
  /** The texts of the marks of fetches in progress, by their paths. */
  const fetching = new Map<string, string>();
  let renewals = 0;

  function isLive(hold: Hold): boolean {
    hold.readers = hold.readers.filter((isOver) => !isOver());
    return hold.readers.length > 0 || isAwaited(hold);
  }

  /** Tells whether the client of a fetched file is expected to ask for more of it. */
  function isAwaited({ fetchedAtMs, lastAskedMs, askedBytes, file }: Hold): boolean {
    if (fetchedAtMs === undefined || askedBytes >= file.sizeBytes) return false;
    const nowMs = clock.monotonicMs();
    const mostMs = SILENCE_MS + askedBytes / LEAST_BYTES_PER_MS;
    return nowMs - lastAskedMs < SILENCE_MS && nowMs - fetchedAtMs < mostMs;
  }

  function endHolds(holder: string, isOver: (hold: Hold) => boolean): void {
    const own = holds.get(holder) ?? new Map<string, Hold>();
    for (const [sha256, hold] of own) {
      if (!isOver(hold)) continue;
      own.delete(sha256);
      deleteMark(hold.path);
    }
    if (own.size === 0) holds.delete(holder);
  }

  /** Ends what is over, so that its marks keep nobody out until they are renewed the next time. */
  function endWhatIsOver(): void {
    for (const holder of [...holds.keys()]) endHolds(holder, (hold) => !isLive(hold));
  }

  /** Tells whether a license holds too much beside a file, in all processes. */
  function isShareFull(holder: string, { sha256, sizeBytes }: StoredFile): boolean {
    const others = listHolds(folder, holder);
    others.delete(sha256);
    const bytes = [...others.values()].reduce((sum, each) => sum + each, sizeBytes);
    return others.size > 0 && bytes > cacheBytes * SHARE_OF_LICENSE;
  }

  function begin(holder: string, file: StoredFile): Hold | undefined {
    endHolds(holder, (hold) => !isLive(hold));
    const path = holdPathOf(folder, { holder, file, process });
    // Written before the look at the others: of two processes that do this at once, each sees the other's mark.
    writeMark(path);
    // A client that asks for another file gives up what it may continue.
    if (isShareFull(holder, file)) endHolds(holder, ({ readers }) => readers.length === 0);
    if (isShareFull(holder, file)) {
      deleteMark(path);
      return undefined;
    }
    const hold = { file, path, readers: [], fetchedAtMs: undefined, lastAskedMs: 0, askedBytes: 0 };
    const own = holds.get(holder) ?? new Map<string, Hold>();
    holds.set(holder, own.set(file.sha256, hold));
    return hold;
  }

  /** Returns how long a license has to wait until it may have so many bytes fetched. */
  function waitMsOf(holder: string, sizeBytes: number): number {
    // A file that never fits is refused for that reason, before anything is read of it.
    if (sizeBytes > cacheBytes) return 0;
    const recent = listFetches(folder, holder);
    let bytes = recent.reduce((sum, each) => sum + each.sizeBytes, sizeBytes);
    let waitMs = 0;
    for (const [index, oldest] of recent.entries()) {
      const isFew = recent.length - index < MOST_FETCHES_AN_HOUR;
      if (isFew && bytes <= cacheBytes * MOST_CACHES_AN_HOUR) break;
      bytes -= oldest.sizeBytes;
      waitMs = HOUR_MS - oldest.ageMs;
    }
    return waitMs;
  }

  const renewing = setInterval(() => {
    try {
      endWhatIsOver();
      for (const own of holds.values()) for (const { path } of own.values()) writeMark(path);
      for (const [path, text] of fetching) writeMark(path, text);
      if (++renewals % RENEWALS_BETWEEN_CLEANINGS === 0) deleteOldMarks(folder);
    } catch {
      // The disk is full or gone. The next fetch says so.
    }
  }, RENEW_MS);
  renewing.unref();

  return {
    /**
     * Holds a file for a license until its request is over. Returns false if the license would hold more than its
     * share of the cache.
     */
    take(file: StoredFile, { holder, isOver }: Wanted): boolean {
      const known = holds.get(holder)?.get(file.sha256);
      const hold = known && isLive(known) ? known : begin(holder, file);
      hold?.readers.push(isOver);
      return hold !== undefined;
    },

    /** Notes that bytes of a file that is held will be sent now. */
    noteSent({ sha256 }: StoredFile, { holder, bytes }: Wanted): void {
      const hold = holds.get(holder)?.get(sha256);
      if (hold === undefined) return;
      hold.askedBytes += bytes;
      hold.lastAskedMs = clock.monotonicMs();
    },

    /**
     * Begins the fetch of a file for a license that holds it. Returns `busy` if the license has another fetch in
     * progress, or the seconds until its next one may begin.
     */
    beginFetch(holder: string, file: StoredFile): FetchTurn | "busy" | number {
      const { sha256, sizeBytes } = file;
      const path = fetchingPathOf(folder, holder);
      if (!writeLoneMark(path)) return "busy";
      const waitMs = waitMsOf(holder, sizeBytes);
      if (waitMs > 0) {
        deleteMark(path);
        return Math.ceil(waitMs / 1_000);
      }
      fetching.set(path, "");
      const hold = holds.get(holder)?.get(sha256);
      let isEnded = false;
      hold?.readers.push(() => isEnded);
      let note: string | undefined;
      return {
        reserve() {
          note = noteFetched(folder, { holder, sizeBytes });
          fetching.set(path, String(sizeBytes));
          writeMark(path, String(sizeBytes));
        },
        end({ isThere, hasRead }) {
          isEnded = true;
          fetching.delete(path);
          if (isThere && hold !== undefined) hold.fetchedAtMs = hold.lastAskedMs = clock.monotonicMs();
          deleteMark(path);
          if (note !== undefined && !hasRead) deleteMark(note);
        },
      };
    },

    endWhatIsOver,

    /** Ends the holds of this process. */
    stop(): void {
      clearInterval(renewing);
      for (const holder of [...holds.keys()]) endHolds(holder, () => true);
    },
  };
}
