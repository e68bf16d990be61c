/** Suspends, resumes and revokes keys. */
import { auditCte } from "../../audit/mod.ts";
import { toId } from "../../base/ids.ts";
import { type Reason, type Refusal, refuse } from "../../base/refusal.ts";
import { type Database, toTextArray } from "../../database/mod.ts";
import {
  allowsRow,
  ERASED,
  isErased,
  isLiving,
  type KeyState,
  type LicenseChanges,
  type RestrictedBy,
  revokedReason,
  UNRESTRICTED,
} from "../mod.ts";
import { refuseKeyChange } from "./_refuse_key_change.ts";
import { findKey, type KeySummary } from "./list_keys.ts";

/** A key, by its UUID or, for a client, by its hash (64 hexadecimal digits). */
type KeyName = { readonly uuid: string } | { readonly hash: string; readonly licenseUuid?: string };

interface Transition {
  readonly verb: "suspend" | "resume" | "revoke";
  readonly from: readonly KeyState[];
  readonly to: KeyState;
  /** Returns why a key is refused; undefined if nothing prevents the change. */
  reasonOf(key: KeySummary): Reason | undefined;
}

const SUSPEND: Transition = {
  verb: "suspend",
  from: ["active"],
  to: "suspended",
  reasonOf({ id, state }) {
    if (state === "revoked") return revokedReason(id);
    return state === "active" ? undefined : { why: "it is suspended already" };
  },
};
const RESUME: Transition = {
  verb: "resume",
  from: ["suspended"],
  to: "active",
  reasonOf({ id, state, email }) {
    if (state === "revoked") return revokedReason(id);
    if (isErased({ email })) return { why: ERASED };
    return state === "suspended" ? undefined : { why: "it is not suspended" };
  },
};
const REVOKE: Transition = {
  verb: "revoke",
  from: ["active", "suspended"],
  to: "revoked",
  reasonOf: ({ state }) => (state === "revoked" ? { why: "it is revoked already" } : undefined),
};

/** Suspends an active key: requests with it get `INVALID_KEY` until it is resumed. Refuses a key in any other state. */
export function suspendKey(changes: LicenseChanges, uuid: string, change: RestrictedBy) {
  return changeState(changes, { uuid }, { ...change, ...SUSPEND });
}

/** Resumes a suspended key. Refuses a key in any other state: a revoked key stays revoked. */
export function resumeKey(changes: LicenseChanges, uuid: string, change: RestrictedBy) {
  return changeState(changes, { uuid }, { ...change, ...RESUME });
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
export function revokeKey(changes: LicenseChanges, name: KeyName, change: RestrictedBy) {
  return changeState(changes, name, { ...change, ...REVOKE });
}

/** Finds the key that {@linkcode revokeKey} would revoke. Refuses the keys that {@linkcode revokeKey} would refuse. */
export async function findRevocable(
  database: Database,
  uuid: string,
  { now }: { readonly now: Date },
): Promise<KeySummary | Refusal> {
  const key = await findKey(database, { uuid }, { now });
  if (key !== undefined && key.state !== "revoked") return key;
  return await refuseKeyChange(database, uuid, { now, ...REVOKE, what: "revoke key" });
}

/** Returns the id of the changed key, `key_…`. */
async function changeState(
  changes: LicenseChanges,
  name: KeyName,
  { verb, from, to, reasonOf, actor, now, restriction = UNRESTRICTED }: RestrictedBy & Transition,
): Promise<{ readonly id: string } | Refusal> {
  const action = `key.${verb}` as const;
  const [row] = await changes.change<{ uuid: string; licenseUuid: string }>(
    (sql) => sql`
      with old as (
        select k.id, k.license_id, k.state, l.account_id
          from keys k join licenses l on l.id = k.license_id
         where ${"uuid" in name ? sql`k.id = ${name.uuid}::uuid` : sql`k.hash = ${`\\x${name.hash}`}::text::bytea`}
           and k.state = any(${toTextArray(from)}::text[]) and ${allowsRow(sql, restriction)}
           and ${to === "active" ? isLiving(sql, sql`l.account_id`) : sql`true`}
           for update of k for share of l
      ),
      changed as (
        update keys k set state = ${to}, revoked_at = ${to === "revoked" ? now : null}::timestamptz
          from old where k.id = old.id
        returning old.account_id, k.license_id, k.id as key_id,
                  jsonb_build_object('state', old.state) as before,
                  jsonb_build_object('state', k.state) as after
      ),
      logged as (${auditCte(sql, { action, actor, at: now, from: sql`changed` })})
      select key_id as uuid, license_id as "licenseUuid" from changed`,
    "licenseUuid" in name ? name : {},
  );
  if (row !== undefined) return { id: toId("key", row.uuid) };
  // A client names the key itself and gets no details; an operator names the id and gets the reason.
  if (!("uuid" in name)) return refuse("KEY_NOT_FOUND", "API key not found or already revoked");
  return await refuseKeyChange(changes.database, name.uuid, {
    what: `${verb} key`,
    now,
    restriction,
    reasonOf,
  });
}
