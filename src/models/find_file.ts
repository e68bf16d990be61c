/**
 * Finds a version of a model by name: its file, if it is hosted here, and the tier and owner that a download needs.
 *
 * Strangers can cause look-ups, too, because a link is checked against the file that it names. So look-ups go through the
 * queue of `database/look_up_queue.ts`, which is bounded and fair between addresses. Results are cached: a version never
 * changes, and a change by an operator takes effect within a minute.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../base/clock.ts";
import { createLookUpQueue, type Database, type LookUpOptions, toTextArray } from "../database/mod.ts";
import type { Tier } from "../licensing/mod.ts";
import type { StoredFile } from "./file_store.ts";
import { MODEL_RULES } from "./model.ts";

export interface FoundVersion {
  readonly name: string;
  readonly version: string;
  readonly requiresLicense: Tier;
  readonly registeredAt: Date;
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

export type FileDirectory = ReturnType<typeof createFileDirectory>;

type Wanted = Pick<FoundVersion, "name" | "version">;

const MAX_FILES = 10_000;
const MAX_AGE_MS = 60_000;

export function createFileDirectory(database: Database, clock: Clock) {
  const known = new LRUCache<string, FoundVersion>({
    max: MAX_FILES,
    ttl: MAX_AGE_MS,
    perf: { now: () => clock.monotonicMs() },
  });
  const queue = createLookUpQueue<FoundVersion>({
    clock,
    async find(ids) {
      const found = new Map((await findFiles(database, ids)).map((file) => [idOf(file), file]));
      for (const [id, file] of found) known.set(id, file);
      return found;
    },
  });
  return {
    /**
     * Finds the version, listed or not, for a request from that address; null if the version does not exist or is
     * retired. Throws `DatabaseUnavailable`.
     */
    async find(wanted: Wanted, address: string, how?: LookUpOptions): Promise<FoundVersion | null> {
      const { name, version } = MODEL_RULES;
      if (name.parse(wanted.name) === undefined || version.parse(wanted.version) === undefined) return null;
      const id = idOf(wanted);
      return known.get(id) ?? (await queue.lookUp(id, address, how));
    },
  };
}

/** Neither a name nor a version contains a slash. */
function idOf({ name, version }: Wanted): string {
  return `${name}/${version}`;
}

async function findFiles(database: Database, ids: readonly string[]): Promise<FoundVersion[]> {
  return await database.read<FoundVersion>(
    (sql) => sql`
      select m.name, v.version, f.sha256, f.size_bytes as "sizeBytes", v.file_name as "fileName",
             m.owner_account_id as "ownerUuid",
             v.requires_license as "requiresLicense", v.created_at as "registeredAt"
        from unnest(${toTextArray(ids)}::text[]) as wanted (id)
        join models m on m.name = split_part(wanted.id, '/', 1)
        join model_versions v on v.model_id = m.id and v.version = split_part(wanted.id, '/', 2) and v.retired_at is null
         -- Not a version that waits for its file: it would stay in the cache without the file.
         and coalesce(v.file, v.download_url) is not null
        left join model_files f on f.sha256 = v.file`,
  );
}
