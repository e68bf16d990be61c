import { parseId } from "../base/ids.ts";
import { renderCount } from "../base/render_count.ts";
import type { Rule } from "../base/rule.ts";
import { KEY_LIKE_DIGITS, redactKeys } from "../base/secrets/mod.ts";
import { type Database, lineOf, type Sql } from "../database/mod.ts";
import { erasedEmail } from "./_erased_email.ts";
import { parseEmail } from "./parse_email.ts";
import { findKeyPart } from "./parse_key_parts.ts";

/** The result of a search, for the lists of keys and accounts. */
export interface Search {
  /** The accounts that match by words. */
  readonly accountUuids: readonly string[];
  /** The licenses whose external id is the text, or else those whose external id begins with it. */
  readonly licenseUuids: readonly string[];
  /** True if more accounts or licenses match. */
  readonly isTooWide: boolean;
  /** The text, which may also name keys by themselves: see `selectNamedKeys`. */
  readonly text: string;
}

/** A search follows at most this many accounts, and this many external ids. */
const MAX_SEARCHED = 1_000;
const MOST = renderCount(MAX_SEARCHED);

/** Says that more match. */
export const TOO_MANY_MATCH = `more than ${MOST} accounts or external ids match`;

/** Warns of a list that is too short, because more match. */
export const TOO_WIDE = `More than ${MOST} accounts or external ids match, and only ${MOST} are searched: narrow the search`;

/** Blanks and ASCII punctuation separate words, as in the function `account_words` of the database. */
const SEPARATORS = /[\s!-/:-@[-`{-~]+/;

/** What people copy with a text: blanks, and quotes of all languages. */
const AROUND = /^[\s\p{Quotation_Mark}`´]+|[\s\p{Quotation_Mark}`´]+$/gu;

/** As long as an external id. */
const LINE = lineOf(1, 255);

/** The rule for the text of a search, which lists have in an address: no address and no command contains a key. */
export const SEARCH_TEXT: Rule<string> = {
  expects: `${LINE.expects}, with a letter or a digit, and no API key: at most ${KEY_LIKE_DIGITS - 1} characters after the prefix, or its last 4`,
  keywords: LINE.keywords,
  parse(text) {
    const isRight = LINE.parse(text) !== undefined && wordsOf(text).length > 0 && redactKeys(text) === text;
    return isRight ? text : undefined;
  },
};

/** Says what a search finds. */
export const SEARCHED =
  "words of e-mail, an earlier e-mail, name or organization, or their beginnings; the start or the end of a key, such as svc_live_ab12 or " +
  "…6442, also in a sentence; the id of a key, a license or an account; an external id or its beginning, such as order 47 for ORDER-4711";

/**
 * Searches for the accounts and the keys that a text means. Each word must be the beginning of a word in the e-mail, name
 * or organization of an account, or of a word in an e-mail that it had before, or the text is the account's id. It may also name keys. Words find no erased account,
 * because its e-mail only repeats its UUID. A whole external id does not find the longer ones, which may be very many.
 */
export async function searchAccounts(database: Database, given: string): Promise<Search> {
  const text = toSearched(given);
  const uuid = parseId("usr", text);
  if (uuid !== undefined) return { accountUuids: [uuid], licenseUuids: [], isTooWide: false, text };
  const [accounts, licenses] = await Promise.all([
    findByWords(database, text),
    findByExternalId(database, text),
  ]);
  return {
    accountUuids: accounts.slice(0, MAX_SEARCHED),
    licenseUuids: licenses.slice(0, MAX_SEARCHED),
    isTooWide: Math.max(accounts.length, licenses.length) > MAX_SEARCHED,
    text,
  };
}

/**
 * Returns the text that is searched for, without blanks and quotes around it. If a sentence has a key, or the start or the end
 * of one, only that is searched.
 */
export function toSearched(given: string): string {
  const text = given.replace(AROUND, "");
  return findKeyPart(text) ?? text;
}

async function findByWords(database: Database, text: string): Promise<string[]> {
  // A whole e-mail in the form in which accounts store it: a domain with letters beyond ASCII has other ones there.
  const query = wordsOf(parseEmail(text) ?? text)
    .map((word) => `'${word}':*`)
    .join(" & ");
  const rows = await database.query<{ uuid: string }>(
    (sql) => sql`
      (select id as uuid from accounts
        where account_words(email, name, organization) @@ to_tsquery('simple', ${query}::text)
          and email <> ${erasedEmail(sql, sql`id`)}
        limit ${MAX_SEARCHED + 1})
       union all
      (select account_id from former_emails
        where account_words(old_email, '', '') @@ to_tsquery('simple', ${query}::text)
        limit ${MAX_SEARCHED + 1})`,
  );
  return [...new Set(rows.map(({ uuid }) => uuid))];
}

async function findByExternalId(database: Database, text: string): Promise<string[]> {
  const bare = (sql: Sql) => sql`bare_external_id(external_id) collate "C"`;
  const rows = await database.query<{ uuid: string; isWhole: boolean }>(
    // The last character of Unicode ends what begins with the text. The whole ones come first.
    (sql) => sql`
      select id as uuid, ${bare(sql)} = bare_external_id(${text}::text) as "isWhole"
        from licenses
       where external_id is not null
         and ${bare(sql)} >= bare_external_id(${text}::text)
         and ${bare(sql)} < bare_external_id(${text}::text) || chr(1114111)
       order by ${bare(sql)}
       limit ${MAX_SEARCHED + 1}`,
  );
  const whole = rows.filter(({ isWhole }) => isWhole);
  return (whole.length > 0 ? whole : rows).map(({ uuid }) => uuid);
}

function wordsOf(text: string): string[] {
  return text.split(SEPARATORS).filter((word) => word !== "");
}
