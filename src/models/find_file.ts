/**
 * Finds a version of a model by its name, its file where that is hosted here, and what is asked of those who load it.
 *
 * Strangers can ask for it, too: a link is checked against the file that it names. So look-ups that wait
 * together go as one statement, one at a time, and who finds too many waiting is turned away. Look-ups of addresses
 * that have used up their window are gathered for a tenth of a second first. What was found is kept: a version never
 * changes, and what an operator changes by hand is seen within a minute.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { type Database, DatabaseUnavailable, toTextArray } from "../database/mod.ts";
import type { Tier } from "../licensing/mod.ts";
import type { StoredFile } from "./file_store.ts";

export interface FoundVersion {
  readonly name: string;
  readonly version: string;
  readonly requiresLicense: Tier;
  /** UUID of the account whose keys alone may load it; null for a model for everybody. */
  readonly ownerUuid: string | null;
  /** Null where the file is elsewhere; so is the size. */
  readonly sha256: string | null;
  readonly sizeBytes: number | null;
  /** The file's own name; null where none is known. */
  readonly fileName: string | null;
}

export type HostedFile = FoundVersion & StoredFile;

/** Whether the file of a version is in the store of this installation. */
export function isHosted(found: FoundVersion): found is HostedFile {
  return found.sha256 !== null;
}

export interface FileDirectory {
  /**
   * That version, listed or not; null where there is no such model or version, or where it is retired. Throws
   * `DatabaseUnavailable`.
   */
  find(name: string, version: string, how?: FindOptions): Promise<FoundVersion | null>;
}

export interface FindOptions {
  /** Whether the look-up waits a tenth of a second for others; it is sent at once by default. */
  readonly isGathered?: boolean;
}

export interface FileDirectoryOptions {
  readonly database: Database;
  readonly clock: Clock;
}

const MAX_FILES = 10_000;
const MAX_AGE_MS = 60_000;
const MAX_WAITING = 1_000;
const GATHERED_MS = 100;

interface Wanted {
  readonly name: string;
  readonly version: string;
  readonly found: PromiseWithResolvers<FoundVersion | null>;
}

export function createFileDirectory({ database, clock }: FileDirectoryOptions): FileDirectory {
  const known = new LRUCache<string, FoundVersion>({
    max: MAX_FILES,
    ttl: MAX_AGE_MS,
    perf: { now: () => clock.monotonicMs() },
  });
  let waiting = new Map<string, Wanted>();
  let gathered = new Map<string, Wanted>();
  let isRunning = false;

  async function run(): Promise<void> {
    isRunning = true;
    while (waiting.size > 0) {
      const batch = waiting;
      waiting = new Map();
      try {
        const files = await findFiles(database, [...batch.values()]);
        for (const file of files) known.set(idOf(file), file);
        for (const [id, { found }] of batch) found.resolve(known.get(id) ?? null);
      } catch (error) {
        for (const { found } of batch.values()) found.reject(error);
      }
    }
    isRunning = false;
  }

  function runGathered(): void {
    for (const [id, wanted] of gathered) {
      const same = waiting.get(id);
      if (same === undefined) waiting.set(id, wanted);
      else wanted.found.resolve(same.found.promise);
    }
    gathered = new Map();
    if (!isRunning) void run();
  }

  return {
    async find(name, version, { isGathered = false } = {}) {
      if (!isSlug(name) || !isSlug(version)) return null;
      const id = idOf({ name, version });
      const file = known.get(id);
      if (file !== undefined) return file;
      const queue = isGathered ? gathered : waiting;
      let wanted = queue.get(id);
      if (wanted === undefined) {
        if (queue.size >= MAX_WAITING) throw new DatabaseUnavailable("look-up queue full");
        wanted = { name, version, found: Promise.withResolvers() };
        queue.set(id, wanted);
        if (!isGathered) {
          if (!isRunning) void run();
        } else if (queue.size === 1) setTimeout(runGathered, GATHERED_MS);
      }
      return await wanted.found.promise;
    },
  };
}

/** What a name or a version may be; see `model.ts`. */
function isSlug(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$/.test(text);
}

function idOf({ name, version }: { readonly name: string; readonly version: string }): string {
  return `${name}/${version}`;
}

async function findFiles(database: Database, wanted: readonly Wanted[]): Promise<FoundVersion[]> {
  const names = toTextArray(wanted.map(({ name }) => name));
  const versions = toTextArray(wanted.map(({ version }) => version));
  return await database.query<FoundVersion>(
    (sql) => sql`
      select m.name, v.version, f.sha256, f.size_bytes as "sizeBytes", v.file_name as "fileName",
             m.owner_account_id as "ownerUuid",
             v.requires_license as "requiresLicense"
        from unnest(${names}::text[], ${versions}::text[]) as wanted (name, version)
        join models m on m.name = wanted.name
        join model_versions v on v.model_id = m.id and v.version = wanted.version and v.retired_at is null
        left join model_files f on f.sha256 = v.file`,
    { isRead: true },
  );
}
