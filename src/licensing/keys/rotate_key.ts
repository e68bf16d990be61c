import { auditCte } from "../../audit/mod.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { newUuid, toId } from "../../base/ids.ts";
import type { Refusal } from "../../base/refusal.ts";
import type { Sql } from "../../database/mod.ts";
import type { Brand } from "../mod.ts";
import {
  allowsRow,
  ERASED,
  holdLiving,
  isErased,
  type KeyMode,
  keyEnd,
  type LicenseChanges,
  type RestrictedBy,
  revokedReason,
  UNRESTRICTED,
} from "../mod.ts";
import { refuseKeyChange } from "./_refuse_key_change.ts";
import { generateApiKey, type NewApiKey } from "./api_key.ts";
import { type StoreAnswer, type StoredAnswer, storedAnswerCte } from "./store_answer.ts";

/** How long the old key works if nothing is said: a week, long enough for a customer to install the new key. */
export const USUAL_OVERLAP = "7d";

export interface RotatedKey {
  /** `key_…` of the new key. */
  readonly id: string;
  /** The new key itself. It is not stored, so it cannot be shown again. */
  readonly apiKey: string;
  /**
   * Until when the old key works: the end of the overlap, or the expiry of the license if that is earlier. A revoked key
   * works no more all the same.
   */
  readonly oldWorksUntil: Date;
}

interface Options extends RestrictedBy {
  readonly brand: Brand;
  /** Stores the answer in the same statement; {@linkcode repeatRotation} reads it. */
  readonly storeAnswer?: StoreAnswer | undefined;
}

interface OldKey {
  readonly uuid: string;
  readonly mode: KeyMode;
  /** Undefined for a revoked key. */
  readonly overlapMs?: number;
}

interface Succession extends Options {
  readonly verb: "rotate" | "replace";
}

/**
 * Creates a second key of the same license. The old key works for `overlapMs` more milliseconds, and not after the
 * expiry of the license. Refuses a key that is unknown, not active, expired, or replaced already.
 */
export function rotateKey(
  changes: LicenseChanges,
  old: OldKey & { readonly overlapMs: number },
  by: Options,
) {
  return succeedKey(changes, old, { ...by, verb: "rotate" });
}

/**
 * Creates a new key of the same license for a revoked one: tier, limits, external id, expiry and use are those of the
 * license, and the mode is that of the old key. The license may have expired, because it cannot be renewed without a key.
 * Refuses a key that is unknown, not revoked, or replaced already, and an erased account.
 */
export function replaceKey(changes: LicenseChanges, old: OldKey, by: Options) {
  return succeedKey(changes, old, { ...by, verb: "replace" });
}

async function succeedKey(
  changes: LicenseChanges,
  old: OldKey,
  options: Succession,
): Promise<RotatedKey | Refusal> {
  const { now, restriction, verb } = options;
  const key = generateApiKey(options.brand, old.mode);
  const [row] = await changes.change<Row>((sql) => successionStatement(sql, old, { ...options, key }));
  if (row !== undefined) return toRotatedKey(row, key.apiKey);
  return await refuseKeyChange(changes.database, old.uuid, {
    what: `${verb} key`,
    now,
    restriction,
    reasonOf: ({ id, state, replacedBy, expiresAt, email }) => {
      if (verb === "rotate" && state === "revoked") return revokedReason(id);
      if (isErased({ email })) return { why: ERASED };
      if (replacedBy !== null) {
        const why = `it was replaced already, by ${replacedBy}`;
        return { why, remedy: { name: "rotate_replacement", of: replacedBy } };
      }
      if (verb === "replace") {
        return state === "revoked"
          ? undefined
          : { why: "it is not revoked", remedy: { name: "rotate_instead", of: id } };
      }
      if (state === "suspended") return { why: "it is suspended", remedy: { name: "resume_key", of: id } };
      if (state !== "expired") return undefined;
      const why = `it expired at ${toTimestamp(expiresAt)}`;
      return { why, remedy: { name: "renew_license", of: id } };
    },
  });
}

/** Returns what {@linkcode rotateKey} or {@linkcode replaceKey} returned, from its stored answer. */
export function repeatRotation({ answer, apiKey }: StoredAnswer): RotatedKey {
  return toRotatedKey(answer as unknown as Row, apiKey);
}

interface Row {
  readonly uuid: string;
  readonly licenseUuid: string;
  /** A text in a stored answer. */
  readonly oldWorksUntil: Date | string;
}

function toRotatedKey({ uuid, oldWorksUntil }: Row, apiKey: string): RotatedKey {
  return { id: toId("key", uuid), apiKey, oldWorksUntil: new Date(oldWorksUntil) };
}

function successionStatement(
  sql: Sql,
  old: OldKey,
  {
    actor,
    now,
    restriction = UNRESTRICTED,
    storeAnswer,
    key,
    verb,
  }: Succession & { readonly key: NewApiKey },
) {
  const uuid = newUuid();
  const endsAt = old.overlapMs === undefined ? null : new Date(now.getTime() + old.overlapMs);
  const isOpen =
    verb === "replace"
      ? sql`k.state = 'revoked'`
      : sql`k.state = 'active' and ${keyEnd(sql)} > ${now}::timestamptz`;
  return sql`
    with account as (${holdLiving(sql, old.uuid)}),
    old as (
      select k.id, k.license_id, l.account_id, l.tier, l.monthly_limit, l.expires_at
        from account join licenses l on l.account_id = account.id join keys k on k.license_id = l.id
       where k.id = ${old.uuid}::uuid and k.mode = ${old.mode} and ${isOpen} and k.replaced_by is null
         and ${allowsRow(sql, restriction)}
         for update of k for share of l
    ),
    made as (
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select ${uuid}::uuid, old.license_id, ${`\\x${key.hash}`}::text::bytea, ${key.hint}, ${old.mode},
             ${now}::timestamptz
        from old
      returning id
    ),
    changed as (
      update keys k set replaced_by = made.id, own_expires_at = least(k.own_expires_at, ${endsAt}::timestamptz)
        from old, made
       where k.id = old.id
      returning old.account_id, k.license_id, k.id as key_id, made.id as made_id,
                null::jsonb as before,
                jsonb_build_object('replaced_by', ${toId("key", uuid)}::text,
                  'own_expires_at', k.own_expires_at) as after,
                least(k.own_expires_at, old.expires_at) as works_until
    ),
    issued as (
      select old.account_id, old.license_id, made.id as key_id, null::jsonb as before,
             jsonb_build_object('tier', old.tier, 'mode', ${old.mode}::text, 'monthly_limit', old.monthly_limit,
               'expires_at', old.expires_at, ${verb === "rotate" ? "rotated_from" : "replaces"}::text, ${toId("key", old.uuid)}::text) as after
        from old, made
    ),
    logged as (${auditCte(sql, { action: `key.${verb}`, actor, at: now, from: sql`changed` })}),
    -- The new key has its own row in the audit log, so that its history is complete from its issue on.
    logged_issue as (${auditCte(sql, { action: "key.issue", actor, at: now, from: sql`issued` })})
    ${storedAnswerCte(sql, storeAnswer, {
      from: sql`changed`,
      answer: sql`jsonb_build_object('uuid', made_id, 'licenseUuid', license_id, 'oldWorksUntil', works_until)`,
      apiKey: key.apiKey,
    })}
    select made_id as uuid, license_id as "licenseUuid", works_until as "oldWorksUntil" from changed`;
}
