/**
 * Finds a version of a model by name: its file, if it is hosted here, and the tier and owner that a download needs.
 *
 * Strangers can cause look-ups, too, because a link is checked against the file that it names. So waiting look-ups are
 * sent together in one statement, one statement at a time, and a look-up is refused when too many wait. Look-ups of
 * addresses with a full window are gathered for a tenth of a second first. Results are cached: a version never changes,
 * and a change by an operator takes effect within a minute.
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
  /** UUID of the account that owns the model, whose keys alone may download it; null for a public model. */
  readonly ownerUuid: string | null;
  /** Null if the file is hosted elsewhere; then the size is null, too. */
  readonly sha256: string | null;
  readonly sizeBytes: number | null;
  /** The name of the file; null if it is not known. */
  readonly fileName: string | null;
}

export type HostedFile = FoundVersion & StoredFile;

/** Tells whether the file of a version is in the store of this installation. */
export function isHosted(found: FoundVersion): found is HostedFile {
  return found.sha256 !== null;
}

export interface FileDirectory {
  /**
   * Finds the version, listed or not; null if it does not exist or is retired. Throws `DatabaseUnavailable`.
   */
  find(name: string, version: string, how?: FindOptions): Promise<FoundVersion | null>;
}

export interface FindOptions {
  /** True: the look-up waits a tenth of a second for others. By default it is sent at once. */
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

/** Matches a name or a version; see `model.ts`. */
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
