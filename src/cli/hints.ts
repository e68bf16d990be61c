/**
 * The commands that the sentences of refusals recommend. Rooms do not name commands, because the API and the console
 * show the same sentences.
 */

const HINTS: readonly (readonly [phrase: RegExp, withHint: string])[] = [
  [/: there is no key key_[0-9a-f]{32}$/, "$&; see `claviger keys list`"],
  [/; resume it first$/, "; `claviger keys resume` comes first"],
  [/; renew its license first$/, "; `claviger keys renew` comes first"],
  [
    /(: the account (\S+) has another .*; .*)change the account first$/,
    "$1change the account first with `claviger accounts update $2`",
  ],
];

/** Returns the sentence of a refusal with the command that helps, if there is one. */
export function withHint(sentence: string): string {
  const [phrase, hint] = HINTS.find(([known]) => known.test(sentence)) ?? [];
  return phrase === undefined || hint === undefined ? sentence : sentence.replace(phrase, hint);
}
