/** Why a key works or does not: what support needs to answer a customer, as data and codes. */
import { monthOf } from "../calendar.ts";
import type { Database } from "../database/mod.ts";
import type { KeyState } from "./key_record.ts";
import { findKey, type KeySummary } from "./list_keys.ts";
import { listRefusals, type RefusalCount } from "./refusals.ts";

/**
 * What makes the service refuse a key. `revoked` and `replaced` (rotated, and the overlap is over) cannot be undone
 * for this key; `suspended`, `expired` (its license) and `quota_used_up` can, and may come together.
 */
export type Obstacle = "revoked" | "replaced" | "suspended" | "expired" | "quota_used_up";

/** The change that brought a key into its state, from the audit log. */
export interface StateChange {
  readonly at: Date;
  /** `http:` and an address, or `command:` and a user's name. */
  readonly actor: string;
  /** Such as `key.suspend`. */
  readonly action: string;
  /** What the actor gave as reason. */
  readonly reason: string | null;
}

export interface KeyExplanation {
  readonly key: KeySummary;
  /** Since when it has its state; null where the state was changed by hand, beside the audit log. */
  readonly since: Date | null;
  /** Null where time brought the state, as an expiry, and where the state was changed by hand. */
  readonly change: StateChange | null;
  /** Everything that makes the service refuse the key now; empty for a key that works. */
  readonly obstacles: readonly Obstacle[];
  /** When the month's quota begins anew, as the contract's `resets_at`. */
  readonly resetsAt: string;
  /** The last refusal first. The newest are written some seconds after their answer. */
  readonly refusals: readonly RefusalCount[];
}

/** Explains one key, named by its UUID, as it is at `now`; undefined where there is none. Three statements. */
export async function explainKey(
  database: Database,
  uuid: string,
  { now }: { readonly now: Date },
): Promise<KeyExplanation | undefined> {
  const [key, last, refusals] = await Promise.all([
    findKey(database, { uuid }, { now }),
    findLastChange(database, uuid),
    listRefusals(database, uuid),
  ]);
  if (key === undefined) return undefined;
  const isExpired = key.state === "expired";
  const change = !isExpired && last !== undefined && STATE_AFTER[last.action] === key.state ? last : null;
  return {
    key,
    since: isExpired ? key.expiresAt : (change?.at ?? null),
    change,
    obstacles: findObstacles(key, now),
    resetsAt: monthOf(now.getTime()).resetsAt,
    refusals,
  };
}

/** The state that each action leaves behind. */
const STATE_AFTER: Readonly<Record<string, KeyState>> = {
  "key.issue": "active",
  "key.import": "active",
  "key.resume": "active",
  "key.suspend": "suspended",
  "key.revoke": "revoked",
};

async function findLastChange(database: Database, keyUuid: string): Promise<StateChange | undefined> {
  const [change] = await database.query<StateChange>(
    (sql) => sql`
      -- Materialized: ordered and cut in one step, the planner may read the whole log backwards.
      with mine as materialized (
        select id, at, actor, action, reason from audit where key_id = ${keyUuid}::uuid
      )
      select at, actor, action, reason
        from mine
       where action in ('key.issue', 'key.import', 'key.resume', 'key.suspend', 'key.revoke')
       order by id desc
       limit 1`,
    { isRead: true },
  );
  return change;
}

function findObstacles(key: KeySummary, now: Date): Obstacle[] {
  if (key.state === "revoked") return ["revoked"];
  // The end of its own, which only a rotated key has, stays when the license is renewed.
  if (key.expiresAt < key.licenseExpiresAt && key.expiresAt <= now) return ["replaced"];
  const obstacles: Obstacle[] = [];
  if (key.state === "suspended") obstacles.push("suspended");
  if (key.licenseExpiresAt <= now) obstacles.push("expired");
  if (key.monthlyLimit !== null && key.used >= key.monthlyLimit) obstacles.push("quota_used_up");
  return obstacles;
}
