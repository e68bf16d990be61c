import { type Database, lineOf } from "../database/mod.ts";
import { renderCount } from "../render_count.ts";
import type { Rule } from "../rule.ts";
import { erasedEmail } from "./_erased_email.ts";

/** The result of a search, for the lists of keys and accounts. */
export interface Search {
  /** The accounts that match by words. */
  readonly accountUuids: readonly string[];
  /** True if more accounts match. */
  readonly isTooWide: boolean;
  /** The last four characters of keys that match, too; null if the text is not four such characters. */
  readonly lastFour: string | null;
}

/** A search follows at most this many accounts. */
const MAX_SEARCHED = 1_000;
const MOST = renderCount(MAX_SEARCHED);

/** Says that more accounts match. */
export const TOO_MANY_MATCH = `more than ${MOST} accounts match`;

/** Warns of a list that is too short, because more accounts match. */
export const TOO_WIDE = `More than ${MOST} accounts match, and only ${MOST} of them are searched: narrow the search`;

/** Blanks and ASCII punctuation separate words, as in the function `account_words` of the database. */
const SEPARATORS = /[\s!-/:-@[-`{-~]+/;

const LINE = lineOf(1, 200);

/** The rule for the text of a search. */
export const SEARCH_TEXT: Rule<string> = {
  expects: `${LINE.expects}, with a letter or a digit`,
  keywords: LINE.keywords,
  parse: (text) => (LINE.parse(text) !== undefined && wordsOf(text).length > 0 ? text : undefined),
};

/** Four characters, alone or as a list shows them: `svc_live_…00ff`. */
const LAST_FOUR = /(?:^|…)([0-9a-f]{4})$/i;

/**
 * Searches accounts by words. Each word of the text must be the beginning of a word in the e-mail, name or
 * organization; `SEARCH_TEXT` is the rule for the text. Finds no erased account, because its e-mail only repeats its UUID.
 */
export async function searchAccounts(database: Database, text: string): Promise<Search> {
  const query = wordsOf(text)
    .map((word) => `'${word}':*`)
    .join(" & ");
  const rows = await database.query<{ uuid: string }>(
    (sql) => sql`
      select id as uuid from accounts
       where account_words(email, name, organization) @@ to_tsquery('simple', ${query}::text)
         and email <> ${erasedEmail(sql, sql`id`)}
       limit ${MAX_SEARCHED + 1}`,
  );
  return {
    accountUuids: rows.slice(0, MAX_SEARCHED).map(({ uuid }) => uuid),
    isTooWide: rows.length > MAX_SEARCHED,
    lastFour: LAST_FOUR.exec(text.trim())?.[1]?.toLowerCase() ?? null,
  };
}

function wordsOf(text: string): string[] {
  return text.split(SEPARATORS).filter((word) => word !== "");
}
