/** The models with all their versions, for operators: also those that are not listed, and retired versions. */

import { toId } from "../base/ids.ts";
import { countRows, type Database, type Fragment, isStorableText, type Sql } from "../database/mod.ts";
import { factColumns } from "./list_models.ts";
import type { ModelFacts } from "./model.ts";

/** A model whose versions are counted. */
export interface RegisteredModel {
  readonly uuid: string;
  readonly name: string;
  /** The version that clients see; null if the model was taken off the list. */
  readonly listedVersion: string | null;
  /** The account that owns the model; null for a public model. */
  readonly owner: { readonly id: string; readonly email: string } | null;
  /** All versions, including retired ones. */
  readonly versions: number;
  /** The version that is listed, or else the newest. */
  readonly shown: ModelVersion;
}

/** A version as operators see it; `sizeMb` is 0 if the size is not known. */
export interface ModelVersion extends ModelFacts {
  /** True if the file is in the data folder, false if it is elsewhere. */
  readonly isHosted: boolean;
  /** True until the file is uploaded; clients do not see the version before. */
  readonly awaitsFile: boolean;
  readonly createdAt: Date;
  /** Null for a version that is not retired. */
  readonly retiredAt: Date | null;
}

/** A model with its newest versions. */
export interface FoundModel {
  readonly model: RegisteredModel;
  readonly versions: readonly ModelVersion[];
}

/** A list of versions has at most this many. */
const MAX_VERSIONS = 100;

type Row = Omit<RegisteredModel, "owner" | "shown"> &
  ModelVersion & { readonly ownerUuid: string | null; readonly email: string | null };

/** Finds a model by its name, with its versions, newest first; undefined if there is none. */
export async function findRegistered(database: Database, name: string): Promise<FoundModel | undefined> {
  const [model] = isStorableText(name) ? await listRegistered(database, { name, limit: 1 }) : [];
  if (model === undefined) return undefined;
  const versions = await database.read<ModelVersion>(
    (sql) => sql`
      select ${columns(sql)}
        from model_versions v left join model_files f on f.sha256 = v.file
       where v.model_id = ${model.uuid}::uuid
       order by v.id desc
       limit ${MAX_VERSIONS}::bigint`,
  );
  return { model, versions };
}

function columns(sql: Sql): Fragment {
  return sql`${factColumns(sql)}, v.download_url is null as "isHosted",
         v.file is null and v.download_url is null and v.retired_at is null as "awaitsFile", v.created_at as "createdAt",
         v.retired_at as "retiredAt"`;
}

/** The order of a list of models: by default that of their creation. */
interface ModelOrder {
  readonly by?: "name" | undefined;
  /** The newest models, or the last names, first; `afterUuid` then selects older or earlier ones. */
  readonly newestFirst?: boolean | undefined;
}

/** Returns the column that sorts the list; both have an index. */
function columnOf(sql: Sql, { by }: ModelOrder): Fragment {
  return by === "name" ? sql`m.name` : sql`m.id`;
}

/** Returns the condition that a model comes after the one with a UUID. */
function isAfter(
  sql: Sql,
  { by, newestFirst, afterUuid }: ModelOrder & Pick<Selection, "afterUuid">,
): Fragment {
  if (afterUuid === undefined) return sql`true`;
  const place =
    by === "name" ? sql`(select name from models where id = ${afterUuid}::uuid)` : sql`${afterUuid}::uuid`;
  return sql`${columnOf(sql, { by })} ${newestFirst ? sql`<` : sql`>`} ${place}`;
}

interface Selection extends ModelOrder {
  readonly name?: string;
  /** Only models whose name contains this text, in any case; the model with this name comes first. */
  readonly search?: string;
  /** Only models after the model with this UUID. */
  readonly afterUuid?: string | undefined;
  readonly limit: number;
}

/** Counts all models up to a number, or those after the one with a UUID. */
export async function countRegistered(
  database: Database,
  part: ModelOrder & Pick<Selection, "afterUuid">,
): Promise<number> {
  return await countRows(database, (sql) => sql`select from models m where ${isAfter(sql, part)}`);
}

/** Lists a part of all models, by default newest first. */
export async function listRegistered(
  database: Database,
  { name, search, afterUuid, limit, by, newestFirst = true }: Selection,
): Promise<RegisteredModel[]> {
  const rows = await database.read<Row>(
    (sql) => sql`
      select m.id as uuid, m.name, m.listed_version as "listedVersion", a.id as "ownerUuid", a.email,
             (select count(*) from model_versions where model_id = m.id) as versions,
             ${columns(sql)}
        from models m
        cross join lateral (
          select * from model_versions
           where model_id = m.id
           order by version is not distinct from m.listed_version desc, id desc
           limit 1) v
        left join model_files f on f.sha256 = v.file
        left join accounts a on a.id = m.owner_account_id
       where ${name === undefined ? sql`true` : sql`m.name = ${name}`}
         ${search === undefined ? sql`` : sql`and strpos(lower(m.name), lower(${search}::text)) > 0`}
         and ${isAfter(sql, { by, newestFirst, afterUuid })}
       order by ${search === undefined ? sql`` : sql`lower(m.name) = lower(${search}::text) desc,`}
                ${columnOf(sql, { by })} ${newestFirst ? sql`desc` : sql``}
       limit ${limit}::bigint`,
  );
  return rows.map(({ uuid, name, listedVersion, ownerUuid, email, versions, ...shown }) => ({
    uuid,
    name,
    listedVersion,
    owner: ownerUuid === null ? null : { id: toId("usr", ownerUuid), email: email ?? "" },
    versions,
    shown,
  }));
}
