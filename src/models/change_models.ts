import { type Actor, auditPart } from "../audit/mod.ts";
import { constraintOf, type Database } from "../database/mod.ts";
import { newUuid } from "../ids.ts";
import { type Refusal, refuse } from "../refusal.ts";
import type { NewModel } from "./model.ts";

/**
 * Adds a version of a model and makes it the one that is listed. Refuses a name and version that exist,
 * and a name that belongs to somebody else.
 */
export async function addModel(
  database: Database,
  model: NewModel,
  { actor, now }: { readonly actor: Actor; readonly now: Date },
): Promise<{ readonly modelUuid: string } | Refusal> {
  const owner = model.ownerUuid ?? null;
  try {
    const [row] = await database.query<{ modelUuid: string }>(
      (sql) => sql`
        with model as (
          insert into models as m (id, name, owner_account_id, listed_version, created_at)
          values (${newUuid()}::uuid, ${model.name}, ${owner}::uuid, ${model.version}, ${now}::timestamptz)
          on conflict (name) do update set listed_version = excluded.listed_version
            where m.owner_account_id is not distinct from excluded.owner_account_id
          returning id, owner_account_id
        ),
        version as (
          insert into model_versions (id, model_id, version, type, paradigm, n_features, n_classes, size_mb,
                                      download_url, checksum, requires_license, metadata, created_at)
          select ${newUuid()}::uuid, model.id, ${model.version}, ${model.type}, ${model.paradigm},
                 ${model.nFeatures}::bigint, ${model.nClasses}::bigint, ${model.sizeMb}::double precision,
                 ${model.downloadUrl}, ${model.checksum}, ${model.requiresLicense},
                 ${JSON.stringify(model.metadata)}::text::jsonb, ${now}::timestamptz
            from model
        ),
        made as (
          select owner_account_id as account_id, null::uuid as license_id, null::uuid as key_id,
                 null::jsonb as before,
                 jsonb_build_object('name', ${model.name}::text, 'version', ${model.version}::text,
                   'requires_license', ${model.requiresLicense}::text, 'checksum', ${model.checksum}::text) as after
            from model
        ),
        logged as (${auditPart(sql, { action: "model.add", actor, at: now, from: sql`made` })})
        select id as "modelUuid" from model`,
    );
    return row ?? refuse("INVALID_REQUEST", `Cannot add model: ${model.name} belongs to another owner`);
  } catch (error) {
    switch (constraintOf(error)) {
      case "version_unique":
        return refuse(
          "INVALID_REQUEST",
          `Cannot add model: ${model.name} ${model.version} exists, and a version never changes; give a new version`,
        );
      case "model_has_owner":
        return refuse("INVALID_REQUEST", "Cannot add model: no account has the owner's id");
      default:
        throw error;
    }
  }
}

/** Takes a model off the list; its versions stay on record. Refuses a name that is not listed. */
export async function removeModel(
  database: Database,
  name: string,
  { actor, now }: { readonly actor: Actor; readonly now: Date },
): Promise<{ readonly version: string } | Refusal> {
  const [row] = await database.query<{ version: string }>(
    (sql) => sql`
      with old as (
        select id, listed_version, owner_account_id from models
         where name = ${name} and listed_version is not null for update
      ),
      changed as (
        update models m set listed_version = null from old where m.id = old.id
        returning old.owner_account_id as account_id, null::uuid as license_id, null::uuid as key_id,
                  jsonb_build_object('name', m.name, 'listed_version', old.listed_version) as before,
                  jsonb_build_object('name', m.name, 'listed_version', null) as after
      ),
      logged as (${auditPart(sql, { action: "model.remove", actor, at: now, from: sql`changed` })})
      select listed_version as version from old`,
  );
  return row ?? refuse("NOT_FOUND", `Cannot remove model: no model named ${name} is listed`);
}
