import { type Actor, auditPart } from "../audit/mod.ts";
import type { Database } from "../database/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";

/** Suspends an active key: it answers `INVALID_KEY` until it is resumed. Refuses any other state. */
export async function suspendKey(
  database: Database,
  uuid: string,
  { actor, now }: { readonly actor: Actor; readonly now: Date },
): Promise<{ readonly licenseUuid: string } | Refusal> {
  const [row] = await database.query<{ licenseUuid: string }>(
    (sql) => sql`
      with changed as (
        update keys k set state = 'suspended'
          from licenses l
         where l.id = k.license_id and k.id = ${uuid}::uuid and k.state = 'active'
        returning l.account_id, k.license_id, k.id as key_id, '{"state": "active"}'::jsonb as before,
                  '{"state": "suspended"}'::jsonb as after
      ),
      logged as (${auditPart(sql, { action: "key.suspend", actor, at: now, from: sql`changed` })})
      select license_id as "licenseUuid" from changed`,
  );
  return row ?? refuse("KEY_NOT_FOUND", "Cannot suspend key: no active key has that id");
}
