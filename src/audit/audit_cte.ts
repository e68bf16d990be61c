import { redactKeys } from "../base/secrets/mod.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import type { AuditAction } from "./actions.ts";
import { type Actor, DOORS } from "./actor.ts";

interface AuditCte {
  readonly action: AuditAction;
  /** Who makes the change. The name can be a column of `from`, where the statement itself finds out who it is. */
  readonly actor: Omit<Actor, "name"> & { readonly name: string | Fragment };
  readonly at: Date;
  /**
   * The CTE that makes the change: a row for each changed thing, with the columns `before` and `after` (`jsonb`),
   * for an action on an account or a model also `account_id`, and for an action on a key, a license, a machine, a
   * notice or use also `account_id`, `license_id` and `key_id`.
   */
  readonly from: Fragment;
}

/**
 * Returns the CTE that writes one audit row for each row of `from`: `with changed as (…), logged as
 * (${auditCte(sql, …)}) select …`. Text in the reason that looks like a key is replaced.
 */
export function auditCte(sql: Sql, { action, actor, at, from }: AuditCte): Fragment {
  const reason = actor.reason === undefined ? null : redactKeys(actor.reason);
  const name = typeof actor.name === "string" ? sql`${actor.name}::text` : actor.name;
  const hasKey = /^(key|license|machine|notice|usage)\./.test(action);
  const hasAccount = hasKey || /^(account|model)\./.test(action);
  return sql`
    insert into audit (at, actor, action, account_id, license_id, key_id, before, after, reason, door, request, address)
    select ${at}::timestamptz, ${`${actor.kind}:`}::text || ${name}, ${action}::text,
           ${hasAccount ? sql`account_id` : sql`null::uuid`},
           ${hasKey ? sql`license_id, key_id` : sql`null::uuid, null::uuid`}, before, after, ${reason}::text,
           ${DOORS[actor.kind]}::text, ${actor.request ?? null}::text, ${actor.address ?? null}::text
      from ${from}`;
}
