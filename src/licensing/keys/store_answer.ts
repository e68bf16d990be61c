import type { Fragment, Sql } from "../../database/mod.ts";

/** The values that the statement that makes a key passes to the CTE that stores the answer for repeated requests. */
export interface MadeKey {
  /** The CTE with the row of the new key. */
  readonly from: Fragment;
  /** The answer without the API key, as `jsonb`; it can use the columns of `from`. */
  readonly answer: Fragment;
  readonly apiKey: string;
}

/** The answer to a request that made a key before. */
export interface StoredAnswer {
  /** The answer without the API key, as the statement that made the key gave it; PostgreSQL orders its fields. */
  readonly answer: Readonly<Record<string, unknown>>;
  readonly apiKey: string;
}

/**
 * Returns the CTE that stores the answer in the statement that makes the key. Its unique constraint rolls the statement
 * back if the same request made a key before.
 */
export type StoreAnswer = (sql: Sql, made: MadeKey) => Fragment;

/** Returns the CTE for the answer, with the comma before it; nothing if no answer is stored. */
export function answerCte(sql: Sql, storeAnswer: StoreAnswer | undefined, made: MadeKey): Fragment {
  return storeAnswer === undefined ? sql`` : sql`, answered as (${storeAnswer(sql, made)})`;
}
