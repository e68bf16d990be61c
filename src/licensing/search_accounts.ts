import { type Database, lineOf } from "../database/mod.ts";
import { parseId } from "../ids.ts";
import { renderCount } from "../render_count.ts";
import type { Rule } from "../rule.ts";
import { redactKeys } from "../secrets/mod.ts";
import { erasedEmail } from "./_erased_email.ts";

/** The result of a search, for the lists of keys and accounts. */
export interface Search {
  /** The accounts that match by words. */
  readonly accountUuids: readonly string[];
  /** True if more accounts match. */
  readonly isTooWide: boolean;
  /** The text, which may also name keys: see `selectNamedKeys`. */
  readonly text: string;
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

/** As long as an external id. */
const LINE = lineOf(1, 255);

/** The rule for the text of a search, which lists have in an address: no address and no command contains a key. */
export const SEARCH_TEXT: Rule<string> = {
  expects: `${LINE.expects}, with a letter or a digit, and no API key: at most 7 characters after the prefix, or its last 4`,
  keywords: LINE.keywords,
  parse(text) {
    const isRight = LINE.parse(text) !== undefined && wordsOf(text).length > 0 && redactKeys(text) === text;
    return isRight ? text : undefined;
  },
};

/** Says what a search finds. */
export const SEARCHED =
  "words of e-mail, name or organization, or their beginnings; the start or the end of a key, such as svc_live_ab12 or " +
  "…6442; the id of a key, a license or an account; an external id";

/**
 * Searches for the accounts and the keys that a text means. Each word must be the beginning of a word in the e-mail, name
 * or organization of an account, or the text is the account's id. It may also name keys. Words find no erased account,
 * because its e-mail only repeats its UUID.
 */
export async function searchAccounts(database: Database, given: string): Promise<Search> {
  const text = given.trim();
  const uuid = parseId("usr", text);
  if (uuid !== undefined) return { accountUuids: [uuid], isTooWide: false, text };
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
    text,
  };
}

function wordsOf(text: string): string[] {
  return text.split(SEPARATORS).filter((word) => word !== "");
}
