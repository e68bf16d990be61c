/**
 * The right of an actor to a request that takes long. It was checked when the request began, and is checked again when
 * the work ends, in the statement that makes the change: a token can be revoked and an operator removed in the meantime.
 */
import type { Code } from "../base/refusal.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";

export interface Right {
  /** Returns the condition, as SQL, that the right is still there. */
  holds(sql: Sql, now: Date): Fragment;
  /** The code of the refusal and the end of its sentence, for an actor who has lost the right. */
  readonly lost: { readonly code: Code; readonly why: string };
}

/** Tells whether the actor still has the right at `now`. Throws as `query` does if the database does not answer. */
export async function isHeld(database: Database, right: Right, now: Date): Promise<boolean> {
  const [row] = await database.query<{ isHeld: boolean }>(
    (sql) => sql`select ${right.holds(sql, now)} as "isHeld"`,
  );
  return row?.isHeld === true;
}
