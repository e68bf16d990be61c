/** Tells what PostgreSQL can store as text and as `jsonb`, so that a refusal can name the reason. */
import * as v from "valibot";
import { inJsonSchema, type Rule } from "../base/rule.ts";

/** Returns the rule for one line of text. Its length counts characters, not code units. */
export function lineOf(least: number, most: number): Rule<string> {
  return {
    expects: `one line of ${least === 0 ? "at most" : `${least} to`} ${most} characters`,
    keywords: { minLength: least, maxLength: most },
    parse(text) {
      const { length } = text.length > most * 2 ? text : [...text];
      const isRight = length >= least && length <= most && !/\p{Cc}/u.test(text) && isStorableText(text);
      return isRight ? text : undefined;
    },
  };
}

/**
 * Tells whether a text has no NUL and no unpaired surrogate, which PostgreSQL refuses, and no U+FFFD, which
 * stands for bytes that were not UTF-8.
 */
export function isStorableText(text: string): boolean {
  return !UNCLEAN.test(text) && text.isWellFormed();
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: The pattern must find NUL.
const UNCLEAN = /[\u0000\uFFFD]/;

/** Tells whether parsed JSON has at most `levels` levels, storable names and texts, and finite numbers. */
export function isStorableJson(value: unknown, levels: number): boolean {
  if (typeof value === "string") return isStorableText(value);
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  return Object.entries(value).every(
    ([name, field]) => isStorableText(name) && isStorableJson(field, levels - 1),
  );
}

/** The largest size of metadata as JSON. */
const METADATA_LIMIT_BYTES = 16 * 1024;
/** The deepest nesting of metadata; the object itself is the first level. */
const METADATA_LEVELS = 32;

/** Returns the schema of metadata of events and models: an object with storable names and texts and finite numbers. */
export function metadataField() {
  return v.pipe(
    v.custom<Readonly<Record<string, unknown>>>(
      (value) => typeof value === "object" && value !== null && !Array.isArray(value),
      "must be an object",
    ),
    v.rawCheck(({ dataset, addIssue }) => {
      if (!dataset.typed) return;
      // Before the size is looked at: a value of many levels has no JSON.
      if (!isStorableJson(dataset.value, METADATA_LEVELS))
        return addIssue({
          message:
            `must have at most ${METADATA_LEVELS} levels, finite numbers, and text without NUL, ` +
            "unpaired surrogates or U+FFFD",
        });
      if (Buffer.byteLength(JSON.stringify(dataset.value)) > METADATA_LIMIT_BYTES)
        addIssue({ message: `must have at most ${METADATA_LIMIT_BYTES} bytes as JSON` });
    }),
    inJsonSchema({
      type: "object",
      additionalProperties: true,
      description: `At most ${METADATA_LIMIT_BYTES} bytes as JSON and ${METADATA_LEVELS} levels`,
    }),
  );
}
