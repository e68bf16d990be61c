/**
 * The commands that the sentences of refusals recommend. Rooms do not name commands, because the API and the console
 * show the same sentences.
 */

const HINTS: readonly (readonly [phrase: RegExp, withHint: string])[] = [
  [/: there is no key key_[0-9a-f]{32}$/, "$&; see `claviger keys list`"],
  [/: a custom model requires commercial or enterprise$/, "$&; give --requires-license commercial"],
  [/; retire it after that$/, "$&, or add --now if its private key leaked"],
  [/; retire it only if its private key leaked$/, "$&, with --now"],
  [/ signing key: no key has that id$/, "$&; `claviger licenses public-keys` shows the ids"],
  [/; rotate first$/, "; `claviger licenses rotate-signing-key` comes first"],
  [/; resume it first$/, "; `claviger keys resume` comes first"],
  [/; renew its license first$/, "; `claviger keys renew` comes first"],
  [
    /(: the account (\S+) has another .*; .*)change the account first$/,
    "$1change the account first with `claviger accounts update $2`",
  ],
  [/: no operator has this name$/, "$&; see `claviger operators list`"],
  [/; a new operator needs a role: /, "; a new operator needs --role "],
  [
    /(: (\S+) has the role .*; )change the role first$/,
    "$1change the role first with `claviger operators role $2 ROLE`",
  ],
  [/make another operator an admin first$/, "$& with `claviger operators role NAME admin`"],
  [/: no token has this name$/, "$&; see `claviger tokens list`"],
  [/; give a later expiry$/, "$& with --expires-at"],
];

/** Returns the sentence of a refusal with the command that helps, if there is one. */
export function withHint(sentence: string): string {
  const [phrase, hint] = HINTS.find(([known]) => known.test(sentence)) ?? [];
  return phrase === undefined || hint === undefined ? sentence : sentence.replace(phrase, hint);
}
