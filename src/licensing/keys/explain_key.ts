/** Explains why a key works or does not work, as data and codes with which support can answer a customer. */
import type { AuditRow } from "../../audit/mod.ts";
import { monthOf } from "../../base/calendar.ts";
import type { Database } from "../../database/mod.ts";
import type { KeyState, Reading } from "../mod.ts";
import { findKey } from "./list_keys.ts";
import { listRefusalCounts } from "./refusal_counts.ts";

/** The change after which a key has its state, from the audit log. */
type StateChange = Pick<AuditRow, "at" | "actor" | "action" | "reason">;

export type KeyExplanation = NonNullable<Awaited<ReturnType<typeof explainKey>>>;

/**
 * Explains the key with a UUID as it is at `now`; undefined if there is no such key, or none that the restriction
 * allows. Runs three statements.
 */
export async function explainKey(database: Database, uuid: string, reading: Reading) {
  const [key, last, refusals] = await Promise.all([
    findKey(database, { uuid }, reading),
    findLastChange(database, uuid),
    listRefusalCounts(database, uuid),
  ]);
  if (key === undefined) return undefined;
  const isExpired = key.state === "expired";
  const change = !isExpired && last !== undefined && STATE_AFTER[last.action] === key.state ? last : null;
  return {
    key,
    /** Since when the key has its state; null if the state was changed by hand, without the audit log. */
    since: isExpired ? key.expiresAt : (change?.at ?? null),
    /** Null for an expired key, because no change expired it, and if the state was changed by hand. */
    change,
    /** When the quota of the next month begins: the contract's `resets_at`. */
    resetsAt: monthOf(reading.now.getTime()).resetsAt,
    /** The latest refusal first. A refusal is written some seconds after its answer. */
    refusals,
  };
}

/** The state of a key after each action. */
const STATE_AFTER: Readonly<Record<string, KeyState>> = {
  "key.issue": "active",
  "key.import": "active",
  "key.resume": "active",
  "key.suspend": "suspended",
  "key.revoke": "revoked",
};

async function findLastChange(database: Database, keyUuid: string): Promise<StateChange | undefined> {
  const [change] = await database.read<StateChange>(
    (sql) => sql`
      -- Materialized: otherwise the planner may read the whole log backwards, for the order and the limit.
      with mine as materialized (
        select id, at, actor, action, reason from audit where key_id = ${keyUuid}::uuid
      )
      select at, actor, action, reason
        from mine
       where action in ('key.issue', 'key.import', 'key.resume', 'key.suspend', 'key.revoke')
       order by id desc
       limit 1`,
  );
  return change;
}
