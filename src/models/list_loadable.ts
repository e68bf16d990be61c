import { toTimestamp } from "../base/calendar.ts";
import type { Reason } from "../base/refusal.ts";
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
  const license = await findLicense(database, { keyUuid, now });
  if (license === undefined) return undefined;
  const { updatesUntil } = license;
  const rows = await database.read<
    ListedFile & { readonly sha256: string | null; readonly sizeBytes: number | null }
  >(
    (sql) => sql`
      select m.name, v.version, v.file_name as "fileName", f.sha256, f.size_bytes as "sizeBytes"
        from models m
        join model_versions v on v.model_id = m.id and ${isListedVersion(sql, updatesUntil ?? undefined)}
        left join model_files f on f.sha256 = v.file
       where ${isForLicense(sql, license)}
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

/** Says why a model is none that the license of a key may load, for operators, who may know every model. */
export async function explainMissing(
  database: Pick<Database, "read">,
  { keyUuid, name, now }: { readonly keyUuid: string; readonly name: string; readonly now: Date },
): Promise<Reason> {
  const license = await findLicense(database, { keyUuid, now });
  const [model] = await database.read<NamedModel>(
    (sql) => sql`
      select m.owner_account_id as "ownerUuid", m.listed_version is not null as "isListed",
             v.version, v.requires_license as "requiresLicense", coalesce(v.file, v.download_url) is null as "isWaiting"
        from models m
        left join model_versions v on v.model_id = m.id and ${isListedVersion(sql, license?.updatesUntil ?? undefined)}
       where m.name = ${name}`,
  );
  const remedy = { name: "list_models" } as const;
  if (model === undefined || license === undefined)
    return { why: `there is no model that is named ${name}`, remedy };
  const { ownerUuid, isListed, version, requiresLicense, isWaiting } = model;
  if (ownerUuid !== null && ownerUuid !== license.accountUuid)
    return { why: `the model ${name} belongs to another account`, remedy };
  if (!isListed) return { why: `no version of the model ${name} is listed`, remedy };
  if (version === null || requiresLicense === null) {
    const end = license.updatesUntil === null ? "" : `, at ${toTimestamp(license.updatesUntil)}`;
    return {
      why: `no version of ${name} was registered before the updates of the license ended${end}`,
      remedy,
    };
  }
  if (isWaiting) return { why: `${name} ${version} waits for its file`, remedy };
  if (ownerUuid !== null && license.hasCustomModels === false)
    return { why: `the license may not load ${name}: it lacks the feature custom_models` };
  return {
    why: `the license may not load ${name}: the model needs the tier ${requiresLicense}, and the license has ${license.tier}`,
  };
}

interface NamedModel {
  /** The account whose model it is; null for a public model. */
  readonly ownerUuid: string | null;
  readonly isListed: boolean;
  /** The version that the license has; null if none was registered before its updates ended. */
  readonly version: string | null;
  readonly requiresLicense: Tier | null;
  readonly isWaiting: boolean;
}

/** Finds the license of a key, as far as it decides which models it may load. */
async function findLicense(
  database: Pick<Database, "read">,
  { keyUuid, now }: Pick<LoadableOptions, "keyUuid" | "now">,
) {
  const [license] = await database.read<License>(
    (sql) => sql`
      select l.tier, l.account_id as "accountUuid", l.updates_until as "updatesUntil", l.own_features as "ownFeatures"
        from keys k join licenses l on l.id = k.license_id where k.id = ${keyUuid}::uuid`,
  );
  return license && { ...license, hasCustomModels: customModelsAt(license, now) };
}
