import type { Fragment, Sql } from "../database/mod.ts";
import { redactKeys } from "../secrets/mod.ts";

/** The person who makes a change: by which door, and the name for the log. */
export interface Actor {
  readonly door: "http" | "command";
  /** The operator's user name for a command; the client's address for a request. */
  readonly name: string;
  readonly reason?: string | undefined;
}

export interface AuditCte {
  /** Noun and verb: `key.revoke`. */
  readonly action: string;
  readonly actor: Actor;
  readonly at: Date;
  /**
   * The CTE that makes the change: a row for each changed thing, with the columns `account_id`, `license_id`,
   * `key_id`, `before` and `after` (the last two `jsonb`).
   */
  readonly from: Fragment;
}

/**
 * Returns the CTE that writes one audit row for each row of `from`: `with changed as (…), logged as
 * (${auditCte(sql, …)}) select …`. Text in the reason that looks like a key is replaced.
 */
export function auditCte(sql: Sql, { action, actor, at, from }: AuditCte): Fragment {
  const reason = actor.reason === undefined ? null : redactKeys(actor.reason);
  return sql`
    insert into audit (at, actor, action, account_id, license_id, key_id, before, after, reason)
    select ${at}::timestamptz, ${`${actor.door}:${actor.name}`}::text, ${action}::text,
           account_id, license_id, key_id, before, after, ${reason}::text
      from ${from}`;
}
