/** Reads what a text gives of a key: the whole key, or its start or end, as people copy it from mails, lists and programs. */
import { KEY_DIGITS } from "../base/secrets/mod.ts";

/** How many digits of the start and of the end of a key its hint has. */
export const HINT_DIGITS = 4;

/** A prefix, the first digits, and the last digits behind three dots. Each of them can be missing. */
const PART_OF_KEY = new RegExp(
  `^(?:[a-z0-9]{1,32}_(live|test)_)?([0-9a-f]{${HINT_DIGITS},${KEY_DIGITS}})?` +
    `(?:(…|\\.\\.\\.)([0-9a-f]{${HINT_DIGITS},${KEY_DIGITS - HINT_DIGITS}})?)?$`,
  "i",
);

/** What people write in place of the dots. */
const ENDING = "end(?:ing|s) (?:in|with) ";
const DIGITS = `[0-9a-f]{${HINT_DIGITS},${KEY_DIGITS}}`;
const DOTS = `(?:…|\\.\\.\\.|${ENDING})`;

/** The same in a sentence: with a prefix, or behind dots. Without a digit, letters behind dots are a word such as "face". */
const PART_IN_SENTENCE = new RegExp(
  "(?<=^|[\\s\\p{Quotation_Mark}`´(=:])" +
    `(?:[a-z0-9]{1,32}_(?:live|test)_(?:${DIGITS}(?:${DOTS}${DIGITS})?|${DOTS}${DIGITS})|${DOTS}(?=[a-f]*\\d)${DIGITS})` +
    "(?=$|[\\s\\p{Quotation_Mark}`´).,;:!?…])",
  "iu",
);

/** A text that has nothing else than the end of a key. */
const ENDING_ALONE = new RegExp(`^${ENDING}[0-9a-f]+$`, "i");

/** The last digits of a key as a word of a sentence. Without a digit, letters are a word such as "face". */
const END_AS_WORD = new RegExp(`^(?=[a-f]*\\d)[0-9a-f]{${HINT_DIGITS}}$`, "i");
const MOST_ENDS = 3;

/**
 * Returns the first key in a sentence, or what it gives of one, in the form that {@linkcode parseKeyParts} reads: for
 * `ending in 6442` it returns `…6442`. Undefined if it gives nothing of a key.
 */
export function findKeyPart(sentence: string): string | undefined {
  const part = ENDING_ALONE.test(sentence) ? sentence : PART_IN_SENTENCE.exec(sentence)?.[0];
  return part?.replace(new RegExp(ENDING, "i"), "…");
}

/** Returns the first words of a sentence that can be the end of a key: up to three, and none for a single word. */
export function findKeyEnds(sentence: string): string[] {
  const words = sentence.split(/[\s.,;:!?()"']+/);
  return words.length > 1 ? words.filter((word) => END_AS_WORD.test(word)).slice(0, MOST_ENDS) : [];
}

/** The digits of a key that a text gives. */
export interface KeyParts {
  readonly mode?: string | undefined;
  readonly start?: string | undefined;
  readonly end?: string | undefined;
  /** True for four to eight digits alone, which can be the start or the end. */
  readonly isEither?: true;
}

/** Returns the parts of a key that a text gives; undefined if it gives none. */
export function parseKeyParts(text: string): KeyParts | undefined {
  const [, mode, digits, dots, last] = PART_OF_KEY.exec(text.toLowerCase()) ?? [];
  const start = digits?.slice(0, HINT_DIGITS);
  const end = last?.slice(-HINT_DIGITS);
  if (start === undefined) return end === undefined ? undefined : { mode, end };
  if (mode === undefined && dots === undefined && digits && digits.length <= 2 * HINT_DIGITS)
    return { start, end: digits.slice(-HINT_DIGITS), isEither: true };
  return { mode, start, end: digits?.length === KEY_DIGITS ? digits.slice(-HINT_DIGITS) : end };
}
