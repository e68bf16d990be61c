/** Ends the downloads of a version, and deletes files that no version needs. */

import { rm } from "node:fs/promises";
import { basename } from "node:path";
import { auditCte, type By } from "../audit/mod.ts";
import { DAY_MS } from "../base/calendar.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { type Database, isStorableText } from "../database/mod.ts";
import type { ModelChange } from "./change_models.ts";
import { isStoredAs } from "./file_store.ts";
import { listFiles, type ModelsPlace } from "./model_files.ts";

/**
 * Retires a version: it is no longer listed, and its downloads end in every process within a minute. The record stays,
 * so that the version number is never used again. Refuses a version that is unknown or already retired.
 */
export async function retireVersion(
  database: Database,
  { name, version }: { readonly name: string; readonly version: string },
  { actor, now, isDryRun = false }: ModelChange,
): Promise<Refusal | undefined> {
  if (!isStorableText(name + version)) {
    return refuse("NOT_FOUND", "Cannot retire model: its name and version must be text");
  }
  const [row] = await database.query<{ retiredAt: Date | null }>(
    (sql) => sql`
      with old as (
        select m.id as model_id, m.name, m.owner_account_id, v.id, v.version, v.retired_at,
               m.listed_version is not distinct from v.version as was_listed
          from models m join model_versions v on v.model_id = m.id
         where m.name = ${name} and v.version = ${version} for update
      ),
      unlisted as (
        update models m set listed_version = null from old
         where m.id = old.model_id and old.was_listed and not ${isDryRun}::boolean
      ),
      changed as (
        update model_versions v set retired_at = ${now}::timestamptz
          from old where v.id = old.id and old.retired_at is null and not ${isDryRun}::boolean
        returning old.owner_account_id as account_id, null::jsonb as before,
                  jsonb_build_object('name', old.name, 'version', v.version) as after
      ),
      logged as (${auditCte(sql, { action: "model.retire", actor, at: now, from: sql`changed` })})
      select retired_at as "retiredAt" from old`,
  );
  if (row === undefined) return refuse("NOT_FOUND", `Cannot retire model: there is no ${name} ${version}`);
  return row.retiredAt === null
    ? undefined
    : refuse("CONFLICT", `Cannot retire model: ${name} ${version} is retired already`);
}

/** A file is kept this long after its last version was retired, or after it was written. */
const KEPT_MS = DAY_MS;

/**
 * Deletes files that no version has needed for a day, in the folder and in the bucket: those of retired versions, and
 * those of an interrupted add. The rows are deleted first, so that an interrupted purge leaves only files, which the
 * next purge deletes. Returns how many files and bytes it deleted, and how many files wait until no version has needed
 * them for a day.
 */
export async function purgeFiles(database: Database, place: ModelsPlace, { actor, now }: By) {
  const until = new Date(now.getTime() - KEPT_MS);
  await database.query(
    (sql) => sql`
      with due as (
        select f.sha256 from model_files f
         where not exists (
           select from model_versions v
            where v.file = f.sha256 and (v.retired_at is null or v.retired_at > ${until}::timestamptz)
         )
      ),
      changed as (
        update model_versions v set file = null from due where v.file = due.sha256
        returning null::uuid as account_id, null::jsonb as after,
                  jsonb_build_object('version', v.version, 'file', due.sha256) as before
      ),
      logged as (${auditCte(sql, { action: "model.purge", actor, at: now, from: sql`changed` })})
      delete from model_files f using due where f.sha256 = due.sha256`,
  );
  // In this order: a file that is added in the meantime is too young to be deleted.
  const stored = await listFiles(place);
  const rows = await database.query<{ sha256: string; isRetired: boolean }>(
    (sql) => sql`
      select f.sha256, not exists (
               select from model_versions v where v.file = f.sha256 and v.retired_at is null
             ) as "isRetired"
        from model_files f`,
  );
  const needed = new Map(rows.map(({ sha256, isRetired }) => [sha256, isRetired]));
  let [files, bytes, waiting] = [0, 0, 0];
  for (const { path, at, sizeBytes, changedAt, bucket } of stored) {
    const name = basename(path);
    // Never delete a file that Claviger did not create.
    if (!isStoredAs(path)) continue;
    const isRetired = needed.get(name) ?? true;
    if (!isRetired) continue;
    if (needed.has(name) || changedAt > until) {
      waiting++;
      continue;
    }
    // Adding a file that the bucket has already does not make it young.
    const [again] = await database.query((sql) => sql`select sha256 from model_files where sha256 = ${name}`);
    if (again !== undefined) continue;
    await (bucket?.remove(path) ?? rm(at, { force: true }));
    files++;
    bytes += sizeBytes;
  }
  return { files, bytes, waiting };
}
