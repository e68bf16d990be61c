import { DAY_AS_BOUND, TIMESTAMP } from "../base/calendar.ts";
import { condition } from "../base/condition.ts";
import { idRule } from "../base/ids.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { ACTIONS } from "./actions.ts";
import { ACTOR_TEXT } from "./actor.ts";

/** The conditions of the audit log for every door, besides the account. */
export const AUDIT_CONDITIONS = {
  key: condition("only changes of this key", idRule("key"), { as: "id" }),
  actor: condition("only changes by this actor, such as token:shop", ACTOR_TEXT),
  action: condition("only changes of this kind", ACTIONS),
  since: condition(`only changes at or after this time, ISO 8601; ${DAY_AS_BOUND}`, TIMESTAMP, {
    as: "time",
  }),
  until: condition(`only changes before this time, ISO 8601; ${DAY_AS_BOUND}`, TIMESTAMP, { as: "time" }),
} as const;

/** The conditions of a row: it meets all given conditions. */
export interface AuditFilter {
  readonly keyUuid?: string | undefined;
  readonly accountUuid?: string | undefined;
  /** Only rows of this license that name one of its keys: an index has them. */
  readonly licenseUuid?: string | undefined;
  /** As the log names it, such as `token:shop`. */
  readonly actor?: string | undefined;
  /** Noun and verb, such as `key.revoke`. */
  readonly action?: string | undefined;
  /** Only rows at or after this instant. */
  readonly since?: Date | undefined;
  /** Only rows before this instant. */
  readonly until?: Date | undefined;
}

/**
 * Returns the condition that a row is not the second one of a move: a license that moves has a row for each of its two accounts,
 * and whoever does not ask for an account reads one.
 */
function isOnce(sql: Sql): Fragment {
  return sql`
    not (action = 'license.move' and before->>'user_id' = 'usr_' || replace(account_id::text, '-', ''))`;
}

/** Returns the condition that a row meets the filter. */
export function meets(
  sql: Sql,
  { keyUuid, accountUuid, licenseUuid, actor, action, since, until }: AuditFilter,
): Fragment {
  const isOfOne = accountUuid === undefined && (keyUuid ?? licenseUuid) !== undefined;
  return sql`
    true ${isOfOne ? sql`and ${isOnce(sql)}` : sql``}
         ${keyUuid === undefined ? sql`` : sql`and key_id = ${keyUuid}::uuid`}
         ${accountUuid === undefined ? sql`` : sql`and account_id = ${accountUuid}::uuid`}
         ${licenseUuid === undefined ? sql`` : sql`and license_id = ${licenseUuid}::uuid`}
         ${actor === undefined ? sql`` : sql`and actor = ${actor}::text`}
         ${action === undefined ? sql`` : sql`and action = ${action}::text`}
         ${since === undefined ? sql`` : sql`and at >= ${since}::timestamptz`}
         ${until === undefined ? sql`` : sql`and at < ${until}::timestamptz`}`;
}
