/**
 * The rules for the texts of accounts and licenses, by field. None may contain what looks like a key or a token: it would
 * be stored in clear, and shown.
 */
import { isStorableText, lineOf, type TextRule } from "../database/mod.ts";
import { parseId } from "../ids.ts";
import type { Rule } from "../rule.ts";
import { redactKeys } from "../secrets/mod.ts";
import { parseEmail } from "./accounts.ts";

export const TEXTS = {
  email: withoutKeys({
    must: "must be an e-mail address",
    range: [3, 254],
    allows: (text) => parseEmail(text) !== undefined,
  }),
  name: withoutKeys(lineOf(1, 200)),
  organization: withoutKeys(lineOf(0, 200)),
  /** Any characters except controls, invisible characters, and separators of lines. */
  external_id: withoutKeys({
    must: "must have 1 to 255 printable characters",
    range: [1, 255],
    allows: (text) => /^[^\p{C}\p{Zl}\p{Zp}]{1,255}$/u.test(text) && isStorableText(text),
  }),
} as const;

/** The rule for a text that names an account. It stays a text: `findAccountNamed` reads it. */
export const ACCOUNT: Rule<string> = {
  must: "must be an account's id, usr_ and 32 hexadecimal digits, or its e-mail",
  keywords: { maxLength: 254 },
  parse: (text) => (parseId("usr", text) === undefined && parseEmail(text) === undefined ? undefined : text),
};

function withoutKeys({ must, range, allows }: TextRule): TextRule {
  const hasNoKey = (text: string) => redactKeys(text) === text;
  return { must: `${must}, and no API key`, range, allows: (text) => allows(text) && hasNoKey(text) };
}
