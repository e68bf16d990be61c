import { auditCte, type By } from "../audit/mod.ts";
import type { Database } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { allowsRow, type LicenseChanges, type Restriction, UNRESTRICTED } from "../licensing/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { refuseKeyChange } from "./_refuse_key_change.ts";
import { findKey, type KeySummary } from "./list_keys.ts";

export interface RevokedKey {
  /** `key_…`. */
  readonly id: string;
}

/**
 * Revokes a key for good. Refuses an unknown key with `KEY_NOT_FOUND`, and a revoked key with `CONFLICT`; a client,
 * which names the key by its hash, gets `KEY_NOT_FOUND` for both. Suspended and expired keys can be revoked.
 *
 * @example
 * ```ts
 * const changes = createLicenseChanges(database);
 * const revoked = await revokeKey(changes, { uuid: newUuid() }, { actor, now });
 * isRefusal(revoked) && revoked.code; // "KEY_NOT_FOUND"
 * ```
 */
export async function revokeKey(
  changes: LicenseChanges,
  by: { readonly hash: string; readonly licenseUuid?: string } | { readonly uuid: string },
  { actor, now, restriction = UNRESTRICTED }: By & { readonly restriction?: Restriction | undefined },
): Promise<RevokedKey | Refusal> {
  const hash = "hash" in by ? `\\x${by.hash}` : null;
  const uuid = "uuid" in by ? by.uuid : null;
  const [row] = await changes.change<{ uuid: string; licenseUuid: string }>(
    (sql) => sql`
      with old as (
        select k.id, k.license_id, k.state, l.account_id
          from keys k join licenses l on l.id = k.license_id
         where (k.hash = ${hash}::text::bytea or k.id = ${uuid}::uuid) and k.state <> 'revoked'
           and ${allowsRow(sql, restriction)}
           for update of k for share of l
      ),
      changed as (
        update keys k set state = 'revoked', revoked_at = ${now}::timestamptz
          from old where k.id = old.id
        returning old.account_id, k.license_id, k.id as key_id,
                  jsonb_build_object('state', old.state) as before,
                  jsonb_build_object('state', k.state) as after
      ),
      logged as (${auditCte(sql, { action: "key.revoke", actor, at: now, from: sql`changed` })})
      select key_id as uuid, license_id as "licenseUuid" from changed`,
    "licenseUuid" in by ? by : {},
  );
  if (row === undefined) {
    // A client names the key itself and gets no details; an operator names the id and gets the reason.
    if (uuid === null) return refuse("KEY_NOT_FOUND", "API key not found or already revoked");
    return await refuseRevocation(changes.database, uuid, { now, restriction });
  }
  return { id: toId("key", row.uuid) };
}

/** Finds the key that {@linkcode revokeKey} would revoke. Refuses the keys that {@linkcode revokeKey} would refuse. */
export async function findRevocable(
  database: Database,
  uuid: string,
  { now }: { readonly now: Date },
): Promise<KeySummary | Refusal> {
  const key = await findKey(database, { uuid }, { now });
  return key === undefined || key.state === "revoked" ? await refuseRevocation(database, uuid, { now }) : key;
}

function refuseRevocation(
  database: Database,
  uuid: string,
  by: { readonly now: Date; readonly restriction?: Restriction },
): Promise<Refusal> {
  return refuseKeyChange(database, uuid, {
    ...by,
    what: "revoke key",
    reasonOf: ({ state }) => (state === "revoked" ? { why: "it is revoked already" } : undefined),
  });
}
