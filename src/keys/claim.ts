import type { Fragment, Sql } from "../database/mod.ts";

/** The values that the statement that makes a key passes to the CTE that stores the answer for repeated requests. */
export interface MadeKey {
  /** The CTE with the row of the new key. */
  readonly from: Fragment;
  /** The result of the function without the API key, as `jsonb`; it uses the columns of `from`. */
  readonly answer: Fragment;
  readonly apiKey: string;
}

/**
 * Returns the CTE that stores the answer in the statement that makes the key. Its unique constraint rolls the statement
 * back if the same request made a key before.
 */
export type Claim = (sql: Sql, made: MadeKey) => Fragment;

/** Returns the CTE for the claim, with the comma before it; nothing without a claim. */
export function claimedCte(sql: Sql, claim: Claim | undefined, made: MadeKey): Fragment {
  return claim === undefined ? sql`` : sql`, claimed as (${claim(sql, made)})`;
}
