/** Schemas for the fields of requests, with the limits that the contract sets. */
import * as v from "valibot";
import { isStorableJson, isStorableText } from "../database/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { inJsonSchema } from "../rule.ts";

/** Returns the schema of an optional text with at most `maxCharacters`; null counts as absent. */
export function optionalText(maxCharacters: number) {
  return v.nullish(
    v.pipe(
      v.string("must be a string"),
      v.check((text) => hasAtMost(text, maxCharacters), `must have at most ${maxCharacters} characters`),
      v.check(isStorableText, "must not hold NUL, unpaired surrogates or U+FFFD"),
      inJsonSchema({ maxLength: maxCharacters }),
    ),
  );
}

/** Tells whether {@linkcode optionalText} accepts the value, without the objects that a schema creates. */
export function isOptionalText(value: unknown, maxCharacters: number): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "string" && hasAtMost(value, maxCharacters) && isStorableText(value);
}

/** Counts characters only if there are more code units than allowed: a text never has more characters than units. */
function hasAtMost(text: string, maxCharacters: number): boolean {
  return text.length <= maxCharacters || [...text].length <= maxCharacters;
}

/** The largest size of metadata as JSON. */
const METADATA_LIMIT_BYTES = 16 * 1024;
/** The deepest nesting of metadata; the object itself is the first level. */
const METADATA_LEVELS = 32;

/** Returns the schema of an optional object with storable keys and texts and finite numbers; null counts as absent. */
export function optionalMetadata() {
  return v.nullish(
    v.pipe(
      v.custom<Readonly<Record<string, unknown>>>(
        (value) => typeof value === "object" && value !== null && !Array.isArray(value),
        "must be an object",
      ),
      v.check(
        (value) => isStorableJson(value, METADATA_LEVELS),
        `must have at most ${METADATA_LEVELS} levels, finite numbers, and text without NUL, ` +
          "unpaired surrogates or U+FFFD",
      ),
      v.check(
        (value) => Buffer.byteLength(JSON.stringify(value)) <= METADATA_LIMIT_BYTES,
        `must have at most ${METADATA_LIMIT_BYTES} bytes as JSON`,
      ),
      inJsonSchema({
        type: "object",
        additionalProperties: true,
        description: `At most ${METADATA_LIMIT_BYTES} bytes as JSON and ${METADATA_LEVELS} levels`,
      }),
    ),
  );
}

/** Checks fields against a schema. A refusal names the first wrong field. Unknown fields are ignored. */
export function parseFields<Schema extends v.GenericSchema>(
  schema: Schema,
  fields: unknown,
): v.InferOutput<Schema> | Refusal {
  const parsed = v.safeParse(schema, fields, { abortEarly: true });
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  return refuse("INVALID_REQUEST", `${v.getDotPath(issue)} ${issue.message}`);
}
