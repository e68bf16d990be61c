import type { Database } from "../database/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";

/** What a search comes to, for the lists of keys and accounts. */
export interface Search {
  /** The accounts that it finds by their words. */
  readonly accountUuids: readonly string[];
  /** Whether it finds more accounts than these. */
  readonly isTooWide: boolean;
  /** The last four characters of the keys that it finds too; null where the text cannot be such. */
  readonly lastFour: string | null;
}

/** So many accounts a search follows. */
export const MAX_SEARCHED = 1_000;

/** What separates words: blanks and the punctuation of ASCII, as in `account_words` of the database. */
const SEPARATORS = /[\s!-/:-@[-`{-~]+/;

/** Four characters alone, or as a list shows them: `svc_live_…00ff`. */
const LAST_FOUR = /(?:^|…)([0-9a-f]{4})$/i;

/**
 * Searches accounts whose e-mail, name and organization together have, for each word of the text, a word that
 * begins with it. Refuses a text without any.
 */
export async function searchAccounts(database: Database, text: string): Promise<Search | Refusal> {
  const words = text.split(SEPARATORS).filter((word) => word !== "");
  if (words.length === 0)
    return refuse("INVALID_REQUEST", "Cannot search: the text has no letter and no digit");
  const query = words.map((word) => `'${word}':*`).join(" & ");
  const rows = await database.query<{ uuid: string }>(
    (sql) => sql`
      select id as uuid from accounts
       where account_words(email, name, organization) @@ to_tsquery('simple', ${query}::text)
       limit ${MAX_SEARCHED + 1}`,
  );
  return {
    accountUuids: rows.slice(0, MAX_SEARCHED).map(({ uuid }) => uuid),
    isTooWide: rows.length > MAX_SEARCHED,
    lastFour: LAST_FOUR.exec(text.trim())?.[1]?.toLowerCase() ?? null,
  };
}
