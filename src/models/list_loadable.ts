import { type Database, toTextArray } from "../database/mod.ts";
import { customModelsAt, type Featured, type Tier } from "../licensing/mod.ts";
import type { StoredFile } from "./file_store.ts";
import { isForLicense, isListedVersion, type ListedFile } from "./list_models.ts";

/** A model that a license may load, in the version that the list of its clients has. */
export interface LoadableModel extends Omit<ListedFile, "sha256"> {
  /** Its file; null if the file is at another address. */
  readonly file: StoredFile | null;
}

interface LoadableOptions {
  readonly keyUuid: string;
  /** Only the models with these names. */
  readonly names?: readonly string[] | undefined;
  readonly limit: number;
  readonly now: Date;
}

interface License extends Pick<Featured, "ownFeatures"> {
  readonly tier: Tier;
  readonly accountUuid: string;
  readonly updatesUntil: Date | null;
}

/**
 * Lists the models that the license of a key may load, in byte order of their names: as `createClientLists` lists them for
 * its clients. Undefined for an unknown key.
 */
export async function listLoadable(
  database: Pick<Database, "read">,
  { keyUuid, names, limit, now }: LoadableOptions,
): Promise<LoadableModel[] | undefined> {
  const [license] = await database.read<License>(
    (sql) => sql`
      select l.tier, l.account_id as "accountUuid", l.updates_until as "updatesUntil", l.own_features as "ownFeatures"
        from keys k join licenses l on l.id = k.license_id where k.id = ${keyUuid}::uuid`,
  );
  if (license === undefined) return undefined;
  const { updatesUntil } = license;
  const loading = { ...license, hasCustomModels: customModelsAt(license, now) };
  const rows = await database.read<
    ListedFile & { readonly sha256: string | null; readonly sizeBytes: number | null }
  >(
    (sql) => sql`
      select m.name, v.version, v.file_name as "fileName", f.sha256, f.size_bytes as "sizeBytes"
        from models m
        join model_versions v on v.model_id = m.id and ${isListedVersion(sql, updatesUntil ?? undefined)}
        left join model_files f on f.sha256 = v.file
       where ${isForLicense(sql, loading)}
         and coalesce(v.file, v.download_url) is not null
         and ${names === undefined ? sql`true` : sql`m.name = any(${toTextArray(names)}::text[])`}
       order by m.name collate "C"
       limit ${limit}::bigint`,
  );
  return rows.map(({ sha256, sizeBytes, ...model }) => ({
    ...model,
    file: sha256 === null || sizeBytes === null ? null : { sha256, sizeBytes },
  }));
}
