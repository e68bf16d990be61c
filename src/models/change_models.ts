import { auditCte, type By } from "../audit/mod.ts";
import { newUuid } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { constraintOf, type Database, isStorableText } from "../database/mod.ts";
import type { NewModel } from "./model.ts";

export interface ModelChange extends By {
  /** True: only answers as the change would. */
  readonly isDryRun?: boolean;
}

/**
 * Adds a version of a model and lists this version. A version whose file is not known yet is listed when its file
 * arrives. Refuses a name and version that exist, and a name that belongs to another owner.
 */
export async function addModel(
  database: Database,
  model: NewModel,
  { actor, now }: By,
): Promise<Refusal | undefined> {
  const owner = model.ownerUuid ?? null;
  const { checksum, hostedBytes = null } = model;
  const listedVersion = checksum === null ? null : model.version;
  try {
    const [added] = await database.query(
      (sql) => sql`
        with model as (
          insert into models as m (id, name, owner_account_id, listed_version, created_at)
          values (${newUuid()}::uuid, ${model.name}, ${owner}::uuid, ${listedVersion}::text, ${now}::timestamptz)
          on conflict (name) do update set listed_version = coalesce(excluded.listed_version, m.listed_version)
            where m.owner_account_id is not distinct from excluded.owner_account_id
          returning id, owner_account_id
        ),
        stored as (
          insert into model_files (sha256, size_bytes, created_at)
          select ${checksum}::text, ${hostedBytes}::bigint, ${now}::timestamptz
            from model where ${hostedBytes}::bigint is not null
          on conflict (sha256) do nothing
        ),
        version as (
          insert into model_versions (id, model_id, version, type, paradigm, n_features, n_classes, size_mb,
                                      download_url, checksum, file, file_name, requires_license, metadata, created_at)
          select ${newUuid()}::uuid, model.id, ${model.version}, ${model.type}, ${model.paradigm},
                 ${model.nFeatures}::bigint, ${model.nClasses}::bigint, ${model.sizeMb}::double precision,
                 ${model.downloadUrl}, ${checksum}::text,
                 case when ${hostedBytes}::bigint is not null then ${checksum}::text end,
                 ${model.fileName ?? null}::text,
                 ${model.requiresLicense},
                 ${JSON.stringify(model.metadata)}::text::jsonb, ${now}::timestamptz
            from model
        ),
        made as (
          select owner_account_id as account_id, null::jsonb as before,
                 jsonb_build_object('name', ${model.name}::text, 'version', ${model.version}::text,
                   'requires_license', ${model.requiresLicense}::text, 'checksum', ${checksum}::text) as after
            from model
        ),
        logged as (${auditCte(sql, { action: "model.add", actor, at: now, from: sql`made` })})
        select id from model`,
    );
    if (added !== undefined) return undefined;
  } catch (error) {
    if (!/^(version_unique|model_has_owner)$/.test(constraintOf(error) ?? "")) throw error;
  }
  const refusal = await checkNewModel(database, model);
  // No model changes its owner, and no version is ever deleted.
  if (refusal === undefined)
    throw new Error(`Cannot add model ${model.name}: the registry refused it without a reason`);
  return refusal;
}

/**
 * Returns the refusal of {@linkcode addModel}; undefined if it is not known in advance. For callers that store a large
 * file first.
 */
export async function checkNewModel(database: Database, model: NewModel): Promise<Refusal | undefined> {
  const owner = model.ownerUuid ?? null;
  const [found] = await database.query<{ noOwner: boolean; isForeign: boolean; exists: boolean }>(
    (sql) => sql`
      select ${owner}::uuid is not null
               and not exists (select from accounts where id = ${owner}::uuid) as "noOwner",
             exists (select from models where name = ${model.name}
                       and owner_account_id is distinct from ${owner}::uuid) as "isForeign",
             exists (select from models m join model_versions v on v.model_id = m.id
                      where m.name = ${model.name} and v.version = ${model.version}) as exists`,
  );
  const { name, version } = model;
  if (found?.noOwner) {
    const fields = [{ field: "owner", error: "no account has this id" }];
    return refuse("NOT_FOUND", "Cannot add model: no account has the owner's id", { fields });
  }
  if (found?.isForeign) return refuse("CONFLICT", `Cannot add model: ${name} belongs to another owner`);
  const why = "exists, and a version never changes; give a new version";
  return found?.exists ? refuse("ALREADY_EXISTS", `Cannot add model: ${name} ${version} ${why}`) : undefined;
}

/**
 * Takes a model off the list. Its versions stay recorded, and hosted files can still be downloaded by name and
 * version. Refuses a name that is not listed.
 */
export async function removeModel(
  database: Database,
  name: string,
  { actor, now, isDryRun = false }: ModelChange,
): Promise<{ readonly version: string } | Refusal> {
  if (!isStorableText(name)) return refuse("NOT_FOUND", "Cannot remove model: its name must be text");
  const [row] = await database.query<{ version: string }>(
    (sql) => sql`
      with old as (
        select id, listed_version, owner_account_id from models
         where name = ${name} and listed_version is not null for update
      ),
      changed as (
        update models m set listed_version = null from old where m.id = old.id and not ${isDryRun}::boolean
        returning old.owner_account_id as account_id,
                  jsonb_build_object('name', m.name, 'listed_version', old.listed_version) as before,
                  jsonb_build_object('name', m.name, 'listed_version', null) as after
      ),
      logged as (${auditCte(sql, { action: "model.remove", actor, at: now, from: sql`changed` })})
      select listed_version as version from old`,
  );
  return row ?? refuse("NOT_FOUND", `Cannot remove model: no model named ${name} is listed`);
}
