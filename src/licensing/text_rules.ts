/**
 * The rules for the texts of accounts and licenses, by field. No text may contain what looks like a key or a token: it
 * would be stored in clear, and shown. An e-mail gets its stored form.
 */

import { condition } from "../base/condition.ts";
import { idForm, parseId } from "../base/ids.ts";
import type { Rule } from "../base/rule.ts";
import { redactKeys } from "../base/secrets/mod.ts";
import { isStorableText, lineOf } from "../database/mod.ts";
import { parseEmail } from "./parse_email.ts";

export const TEXT_RULES = {
  email: withoutKeys({
    expects: "an e-mail address",
    keywords: { minLength: 3, maxLength: 254, format: "email" },
    parse: parseEmail,
  }),
  name: withoutKeys(lineOf(1, 200)),
  organization: withoutKeys(lineOf(0, 200)),
  /** Any characters except controls, invisible characters, and separators of lines. */
  external_id: withoutKeys({
    expects: "1 to 255 printable characters",
    keywords: { minLength: 1, maxLength: 255 },
    parse: (text) => (/^[^\p{C}\p{Zl}\p{Zp}]{1,255}$/u.test(text) && isStorableText(text) ? text : undefined),
  }),
} as const;

/** The rule for a text that names an account. It stays a text: `findAccountNamed` reads it. */
export const ACCOUNT: Rule<string> = {
  expects: `an account's id, ${idForm("usr")}, or its e-mail`,
  keywords: { maxLength: 254 },
  parse: (text) => (parseId("usr", text) === undefined && parseEmail(text) === undefined ? undefined : text),
};

/** The condition of every list whose rows belong to accounts. */
export const ACCOUNT_CONDITION = condition("only rows of this account, by its id or e-mail", ACCOUNT);

function withoutKeys({ expects, keywords, parse }: Rule<string>): Rule<string> {
  return {
    expects: `${expects}, and no API key`,
    keywords,
    parse(text) {
      // The length first: the search for keys costs more.
      const value = parse(text);
      return value !== undefined && redactKeys(text) === text ? value : undefined;
    },
  };
}
