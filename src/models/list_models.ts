import { toId } from "../base/ids.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
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

/** Reads listed models; `chosen` says which ones, and their order. Rows whose `rowId` is known have no metadata. */
export async function selectListed(
  database: Database,
  { chosen, known = [] }: { readonly chosen: (sql: Sql) => Fragment; readonly known?: readonly string[] },
): Promise<ListedRow[]> {
  return await database.read<ListedRow>(
    (sql) => sql`
      select m.id as uuid, v.id || '/' || v.xmin as "rowId",
             m.name, ${factColumns(sql)}, v.download_url as "downloadUrl", v.checksum,
             case when v.id || '/' || v.xmin = any(${toTextArray(known)}::text[]) then null else v.metadata end as metadata,
             m.owner_account_id as owner, v.file_name as "fileName"
        from models m
        join model_versions v on v.model_id = m.id and v.version = m.listed_version
        left join model_files f on f.sha256 = v.file
        ${chosen(sql)}`,
  );
}

/** Returns the columns of `ModelFacts`, from the version `v` and its file `f`. */
export function factColumns(sql: Sql): Fragment {
  return sql`
    v.version, v.type, v.paradigm, v.n_features as "nFeatures", v.n_classes as "nClasses",
    -- Versions that were added by an older program may have 0.
    coalesce(nullif(v.size_mb, 0), f.size_bytes / 1e6, 0)::double precision as "sizeMb",
    v.requires_license as "requiresLicense"`;
}
