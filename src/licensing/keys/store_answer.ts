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
 * Returns a CTE that stores the answer. It is a part of the statement that makes the key: both are stored, or none.
 * If the same request made a key before, the constraint of the table rolls the statement back.
 */
export type StoreAnswer = (sql: Sql, made: MadeKey) => Fragment;

/** Returns the CTE with a comma before it; nothing if no answer is to be stored. */
export function storedAnswerCte(sql: Sql, storeAnswer: StoreAnswer | undefined, made: MadeKey): Fragment {
  return storeAnswer === undefined ? sql`` : sql`, answered as (${storeAnswer(sql, made)})`;
}
