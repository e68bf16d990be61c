/**
 * The states of a key, and when it ends. This and `named_keys.ts` are not in `keys/`, because accounts and licenses are
 * found by their keys and shown with them, and `keys/` imports this room.
 */
import type { Fragment, Sql } from "../database/mod.ts";

/** The states of a key that are stored. */
export const KEY_STATES = ["active", "suspended", "revoked"] as const;
export type KeyState = (typeof KEY_STATES)[number];

/** The states of a key in lists: `expired` for an active key after its expiry. */
export const LISTED_STATES = [...KEY_STATES, "expired"] as const;
export type ListedState = (typeof LISTED_STATES)[number];

/**
 * Returns when a key ends, as SQL: with its license, the row with the alias `l`, or earlier if the key, `k`, has an
 * earlier end of its own. `licenseEnd` is the end of the license, if it is not the stored one.
 */
export function keyEnd(sql: Sql, licenseEnd: Fragment = sql`l.expires_at`): Fragment {
  return sql`least(${licenseEnd}, k.own_expires_at)`;
}

/** Returns the state of a key in lists, as SQL: `state` is its stored state, and `endsAt` when it ends. */
export function listedState(
  sql: Sql,
  { state, endsAt, now }: { readonly state: Fragment; readonly endsAt: Fragment; readonly now: Date },
): Fragment {
  return sql`case when ${state} = 'active' and ${endsAt} <= ${now}::timestamptz then 'expired' else ${state} end`;
}
