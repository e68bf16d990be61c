/** Moves a license to another account. */
import { auditCte } from "../audit/mod.ts";
import { newUuid, toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { ERASED, hasPerson, isErased } from "./_erased_email.ts";
import { type Account, findAccount } from "./accounts.ts";
import { hasCustomModels } from "./features.ts";
import type { LicenseChanges } from "./license_changes.ts";
import { nameFor } from "./licenses.ts";
import { isRestricted, type RestrictedBy, UNRESTRICTED } from "./restriction.ts";
import { TIERS } from "./tiers.ts";
import { refuseUnknownLicense } from "./unknown.ts";
import { isWithinUpdatesSql } from "./updates.ts";

/** The most names of models in an answer. */
export const MOST_MODELS = 100;

/** What a move does to a license. */
export interface Move {
  readonly from: AccountName;
  readonly to: AccountName & { readonly isNew: boolean };
  /** How many keys and machines go along, ended ones included. */
  readonly keys: number;
  readonly machines: number;
  /**
   * The names of the custom models that the license can load only under the old account, and only under the new one, in
   * byte order; at most {@linkcode MOST_MODELS} each.
   */
  readonly losesModels: readonly string[];
  readonly getsModels: readonly string[];
}

/** `id` is `usr_…`. */
type AccountName = Pick<Account, "id" | "email">;

/** The account to which a license moves. */
interface Target {
  readonly email: string;
  /** May an account be made if none has the e-mail? By default that is refused, because the e-mail may be mistyped. */
  readonly mayBeNew?: boolean | undefined;
}

interface Options extends RestrictedBy {
  readonly to: Target;
  /** Says what the move would do, or refuses it, and changes nothing. */
  readonly isDryRun?: boolean;
}

interface Row extends Pick<Move, "keys" | "machines" | "losesModels" | "getsModels"> {
  readonly licenseUuid: string;
  readonly fromUuid: string;
  readonly fromEmail: string;
  readonly isLiving: boolean;
  readonly isSame: boolean;
  readonly toUuid: string | null;
}

const WHAT = "move license";
const NO_PERSON = refuse("CONFLICT", `Cannot ${WHAT}: ${ERASED}, or that is under way`);

/**
 * Moves a license to the account with an e-mail. Its keys, machines, use, events, external id and signed licenses go along;
 * custom models stay with their account. The audit log gets a row for each of the two accounts. Refuses an unknown license
 * or account (`NOT_FOUND`), a license that the account has already and an erased account on either side (`CONFLICT`), and a
 * restricted actor (`NOT_ALLOWED`).
 */
export async function moveLicense(
  changes: LicenseChanges,
  licenseUuid: string,
  { to, isDryRun = false, restriction = UNRESTRICTED, ...by }: Options,
): Promise<Move | Refusal> {
  if (isRestricted(restriction))
    return refuse(
      "NOT_ALLOWED",
      `Cannot ${WHAT}: a restricted token may not give a license to another account`,
    );
  if (isErased(to)) return NO_PERSON;
  const target = await findAccount(changes.database, { email: to.email });
  if (target === undefined && !to.mayBeNew)
    return refuse("NOT_FOUND", `Cannot ${WHAT}: no account has the e-mail ${to.email}`, {
      remedy: { name: "allow_new_account" },
    });
  const build = (sql: Sql) => moveStatement(sql, licenseUuid, { ...by, to, target, isDryRun });
  const [row] = await changes.change<Row>(build, { licenseUuid });
  if (row === undefined) return refuseUnknownLicense(WHAT, licenseUuid);
  if (row.isSame) return refuse("CONFLICT", `Cannot ${WHAT}: the account ${to.email} has it already`);
  if (!row.isLiving) return NO_PERSON;
  if (row.toUuid === null)
    return refuse("CONFLICT", `Cannot ${WHAT}: an account was changed at the same moment; try again`);
  const { fromUuid, fromEmail, toUuid, keys, machines, losesModels, getsModels } = row;
  return {
    from: { id: toId("usr", fromUuid), email: fromEmail },
    to: { id: toId("usr", toUuid), email: to.email, isNew: target === undefined },
    keys,
    machines,
    losesModels,
    getsModels,
  };
}

interface Statement extends Pick<Options, "actor" | "now"> {
  readonly to: Target;
  /** Undefined if the account must be made. */
  readonly target: Account | undefined;
  readonly isDryRun: boolean;
}

function moveStatement(sql: Sql, licenseUuid: string, { actor, now, to, target, isDryRun }: Statement) {
  const targetUuid = target?.uuid ?? newUuid();
  return sql`
    with begun as materialized (
      select account_id from licenses where id = ${licenseUuid}::uuid
    ),
    -- Both accounts, in one order for all moves.
    held as materialized (
      select a.id, a.email, ${hasPerson(sql)} as is_living
        from accounts a
       where a.id in (select account_id from begun union all select ${targetUuid}::uuid)
       order by a.id
         for no key update
    ),
    license as materialized (
      select l.id, l.account_id, l.tier, l.updates_until, ${hasCustomModels(sql, now)} as has_custom_models,
             k.id as key_id,
             (select bool_and(is_living) from held) as is_living,
             -- Not if another move was faster, or the account has another e-mail by now.
             l.account_id = begun.account_id
               and (select count(*) from held) = ${target === undefined ? 1 : 2}
               and (${target === undefined}::boolean or exists (select from held where id = ${targetUuid}::uuid and email = ${to.email}))
               as is_held
        from begun
        join licenses l on l.id = ${licenseUuid}::uuid and (select count(*) from held) > 0
        left join lateral (select id from keys where license_id = l.id and state <> 'revoked'
                            order by id desc limit 1) k on true
         for update of l
    ),
    -- An update that changes nothing: an erasure that waits for it sees afterwards that the account may have a new key.
    touched as (
      update accounts a set created_at = a.created_at from held where a.id = held.id and not ${isDryRun}::boolean
    ),
    made as (
      insert into accounts (id, email, name, created_at)
      select ${targetUuid}::uuid, ${to.email}, ${nameFor(to.email)}, ${now}::timestamptz
        from license
       where ${target === undefined && !isDryRun}::boolean and is_living and is_held
      on conflict (email) do nothing
      returning id
    ),
    target as (
      select id from made
       union all
      select ${targetUuid}::uuid where ${target !== undefined || isDryRun}::boolean
    ),
    changed as (
      update licenses l set account_id = target.id
        from license old, target
       where l.id = old.id and is_living and is_held and old.account_id <> target.id and not ${isDryRun}::boolean
      returning old.account_id as old_account_id, l.account_id as new_account_id, l.id as license_id, old.key_id,
                jsonb_build_object('user_id', ${idOf(sql, sql`old.account_id`)}) as before,
                jsonb_build_object('user_id', ${idOf(sql, sql`l.account_id`)}) as after
    ),
    noted as (
      select old_account_id as account_id, license_id, key_id, before, after from changed
       union all
      select new_account_id, license_id, key_id, before, after from changed
    ),
    logged as (${auditCte(sql, { action: "license.move", actor, at: now, from: sql`noted` })})
    select license.id as "licenseUuid", license.account_id as "fromUuid", held.email as "fromEmail",
           license.is_living as "isLiving", license.account_id = ${targetUuid}::uuid as "isSame",
           case when license.is_held then (select id from target) end as "toUuid",
           (select count(*) from keys where license_id = license.id) as keys,
           (select count(*) from machines where license_id = license.id) as machines,
           ${customModels(sql, sql`license.account_id`)} as "losesModels",
           ${customModels(sql, sql`${targetUuid}::uuid`)} as "getsModels"
      from license left join held on held.id = license.account_id`;
}

/** Returns an identifier of an account as SQL. */
function idOf(sql: Sql, uuid: Fragment): Fragment {
  return sql`'usr_' || replace(${uuid}::text, '-', '')`;
}

/** Returns the names of the custom models of an account that the license may load, as SQL. */
function customModels(sql: Sql, accountUuid: Fragment): Fragment {
  const rankOf = (tier: Fragment) => sql`array_position(${toTextArray(TIERS)}::text[], ${tier})`;
  return sql`
    (select coalesce(json_agg(name), '[]')
       from (select m.name from models m
              where m.owner_account_id = ${accountUuid}
                and exists (select from model_versions v
                             where v.model_id = m.id and v.retired_at is null
                               and coalesce(v.file, v.download_url) is not null
                               and ${isWithinUpdatesSql(sql, sql`v.created_at`, sql`license.updates_until`)}
                               and coalesce(license.has_custom_models,
                                            ${rankOf(sql`v.requires_license`)} <= ${rankOf(sql`license.tier`)}))
              order by m.name collate "C" limit ${MOST_MODELS}) owned)`;
}

/** Renders a move as JSON, for `--json` of the command and for the API. */
export function renderMove(licenseUuid: string, move: Move) {
  return {
    id: toId("lic", licenseUuid),
    from: { user_id: move.from.id, email: move.from.email },
    to: { user_id: move.to.id, email: move.to.email, is_new: move.to.isNew },
    keys: move.keys,
    machines: move.machines,
    loses_models: move.losesModels,
    gets_models: move.getsModels,
  };
}
