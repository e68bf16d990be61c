/** What PostgreSQL can hold as text and as `jsonb`: to be asked where a refusal is owed a sentence. */

/**
 * True for a text without NUL and without unpaired surrogates, which PostgreSQL refuses, and without U+FFFD,
 * which is what bytes become that were no UTF-8.
 */
export function isStorableText(text: string): boolean {
  return !UNCLEAN.test(text) && text.isWellFormed();
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what is looked for.
const UNCLEAN = /[\u0000\uFFFD]/;

/** True for parsed JSON of at most so many levels, with storable names and texts and finite numbers. */
export function isStorableJson(value: unknown, levels: number): boolean {
  if (typeof value === "string") return isStorableText(value);
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  return Object.entries(value).every(
    ([name, field]) => isStorableText(name) && isStorableJson(field, levels - 1),
  );
}
