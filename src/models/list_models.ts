import { toId } from "../base/ids.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { includesTier, isWithinUpdatesSql, TIERS, type Tier } from "../licensing/mod.ts";
import type { ModelSummary } from "./model.ts";

/** A hosted version, for its link. */
export interface ListedFile {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  /** The name of the file; null if it is not known. */
  readonly fileName: string | null;
}

/** Lists all listed models, of every owner, in byte order of their names. */
export async function listAllModels(database: Database): Promise<ModelSummary[]> {
  return (await selectListed(database, { chosen: (sql) => sql`order by m.name collate "C"` })).map(toSummary);
}

/** Lists a part of the listed models, of every owner, oldest first. `afterUuid` is the UUID of a model. */
export async function listModels(
  database: Database,
  { afterUuid, limit }: { readonly afterUuid?: string | undefined; readonly limit: number },
): Promise<(ModelSummary & { readonly uuid: string })[]> {
  const rows = await selectListed(database, {
    chosen: (sql) => sql`
      where ${afterUuid === undefined ? sql`true` : sql`m.id > ${afterUuid}::uuid`}
      order by m.id limit ${limit}::bigint`,
  });
  return rows.map((row) => ({ ...toSummary(row), uuid: row.uuid }));
}

function toSummary({ fileName: _, uuid: __, rowId: ___, ...row }: ListedRow): ModelSummary {
  return { ...row, owner: row.owner === null ? null : toId("usr", row.owner) };
}

/** A row of a list; `owner` is the UUID of the account. */
export type ListedRow = ModelSummary &
  Pick<ListedFile, "fileName"> & {
    readonly uuid: string;
    /** Identifies what the row of the version contains: it differs after every change of the row. */
    readonly rowId: string;
  };

/** A license, as far as it decides which models it may load. */
export interface LoadingLicense {
  readonly tier: Tier;
  readonly accountUuid: string;
  /** Whether the models of the account are for the license; undefined: its tier decides. */
  readonly hasCustomModels?: boolean | undefined;
}

/** Returns the condition that a license may load a model `m` in its version `v`, as far as no end of updates decides. */
export function isForLicense(sql: Sql, { tier, accountUuid, hasCustomModels }: LoadingLicense): Fragment {
  const tiers = TIERS.filter((lower) => includesTier(tier, lower)).join(",");
  return sql`
    (m.owner_account_id is null or m.owner_account_id = ${accountUuid}::uuid)
    and coalesce(case when m.owner_account_id is not null then ${hasCustomModels ?? null}::boolean end,
                 v.requires_license = any(string_to_array(${tiers}, ',')))`;
}

interface Selection {
  /** Says which models, and their order. */
  readonly chosen: (sql: Sql) => Fragment;
  /** Rows whose `rowId` is known have no metadata. */
  readonly known?: readonly string[];
  /** In place of a version that was registered later, a model has its newest version of before. */
  readonly until?: Date | undefined;
}

/** Reads listed models in their listed versions. */
export async function selectListed(
  database: Database,
  { chosen, known = [], until }: Selection,
): Promise<ListedRow[]> {
  return await database.read<ListedRow>(
    (sql) => sql`
      select m.id as uuid, v.id || '/' || v.xmin as "rowId",
             m.name, ${factColumns(sql)}, v.download_url as "downloadUrl", v.checksum,
             case when v.id || '/' || v.xmin = any(${toTextArray(known)}::text[]) then null else v.metadata end as metadata,
             m.owner_account_id as owner, v.file_name as "fileName"
        from models m
        join model_versions v on v.model_id = m.id and ${isListedVersion(sql, until)}
        left join model_files f on f.sha256 = v.file
        ${chosen(sql)}`,
  );
}

/**
 * Returns the condition that `v` is the listed version of a model `m`. With `until` it is the listed version, or else the
 * newest, that was registered by then.
 */
export function isListedVersion(sql: Sql, until: Date | undefined): Fragment {
  if (until === undefined) return sql`v.version = m.listed_version`;
  return sql`
    m.listed_version is not null and v.id = (
      select n.id from model_versions n
       where n.model_id = m.id and n.retired_at is null
         and ${isWithinUpdatesSql(sql, sql`n.created_at`, sql`${until}::timestamptz`)}
         -- Not a version that waits for its file.
         and coalesce(n.file, n.download_url) is not null
       order by n.version = m.listed_version desc, n.created_at desc, n.id desc limit 1)`;
}

/** Returns the columns of `ModelFacts`, from the version `v` and its file `f`. */
export function factColumns(sql: Sql): Fragment {
  return sql`
    v.version, v.type, v.paradigm, v.n_features as "nFeatures", v.n_classes as "nClasses",
    -- Versions that were added by an older program may have 0.
    coalesce(nullif(v.size_mb, 0), f.size_bytes / 1e6, 0)::double precision as "sizeMb",
    v.requires_license as "requiresLicense"`;
}
