import type { Database, Fragment, Sql } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { includesTier, TIERS, type Tier } from "../licensing/mod.ts";
import type { ModelSummary } from "./model.ts";

/** A hosted version, for its link. */
export interface ListedFile {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  /** The name of the file; null if it is not known. */
  readonly fileName: string | null;
}

export interface ModelQuery {
  readonly tier: Tier;
  readonly accountUuid: string;
  readonly paradigm?: string | undefined;
  readonly type?: string | undefined;
}

/**
 * Lists the models that a key of that tier and account may download: public models and the account's own, in byte
 * order of their names. A filter without matches gives an empty list. `linkTo` returns the address of a hosted file.
 * The records are those of the contract, "Model record".
 */
export async function listModelsFor(
  database: Database,
  query: ModelQuery,
  linkTo: (file: ListedFile) => string,
) {
  const tiers = TIERS.filter((tier) => includesTier(query.tier, tier)).join(",");
  const rows = await selectListed(
    database,
    (sql) => sql`
      v.requires_license = any(string_to_array(${tiers}, ','))
      and (m.owner_account_id is null or m.owner_account_id = ${query.accountUuid}::uuid)
      and (${query.paradigm ?? null}::text is null or v.paradigm = ${query.paradigm ?? null}::text)
      and (${query.type ?? null}::text is null or v.type = ${query.type ?? null}::text)`,
  );
  return rows.map((row) => ({
    name: row.name,
    version: row.version,
    type: row.type,
    paradigm: row.paradigm,
    n_features: row.nFeatures,
    n_classes: row.nClasses,
    size_mb: row.sizeMb,
    download_url: row.downloadUrl ?? linkTo({ ...row, sha256: row.checksum }),
    checksum: `sha256:${row.checksum}`,
    requires_license: row.requiresLicense,
    metadata: row.metadata,
  }));
}

/** Lists all listed models, of every owner, in byte order of their names. */
export async function listAllModels(database: Database): Promise<ModelSummary[]> {
  return (await selectListed(database, (sql) => sql`true`)).map(toSummary);
}

/** Lists a part of the listed models, of every owner, oldest first. `afterUuid` is the UUID of a model. */
export async function listModels(
  database: Database,
  { afterUuid, limit }: { readonly afterUuid?: string | undefined; readonly limit: number },
): Promise<(ModelSummary & { readonly uuid: string })[]> {
  const rows = await selectListed(
    database,
    (sql) => (afterUuid === undefined ? sql`true` : sql`m.id > ${afterUuid}::uuid`),
    (sql) => sql`m.id limit ${limit}::bigint`,
  );
  return rows.map((row) => ({ ...toSummary(row), uuid: row.uuid }));
}

function toSummary({ fileName: _, uuid: __, ...row }: ListedRow): ModelSummary {
  return { ...row, owner: row.owner === null ? null : toId("usr", row.owner) };
}

type ListedRow = ModelSummary & Pick<ListedFile, "fileName"> & { readonly uuid: string };

async function selectListed(
  database: Database,
  condition: (sql: Sql) => Fragment,
  order: (sql: Sql) => Fragment = (sql) => sql`m.name collate "C"`,
): Promise<ListedRow[]> {
  return await database.query<ListedRow>(
    (sql) => sql`
      select m.id as uuid, m.name, v.version, v.type, v.paradigm, v.n_features as "nFeatures", v.n_classes as "nClasses",
             -- Versions that were added by an older program may have 0.
             coalesce(nullif(v.size_mb, 0), f.size_bytes / 1e6, 0)::double precision as "sizeMb",
             v.download_url as "downloadUrl", v.checksum,
             v.requires_license as "requiresLicense", v.metadata, m.owner_account_id as owner,
             v.file_name as "fileName"
        from models m
        join model_versions v on v.model_id = m.id and v.version = m.listed_version
        left join model_files f on f.sha256 = v.file
       where ${condition(sql)}
       order by ${order(sql)}`,
    { isRead: true },
  );
}
