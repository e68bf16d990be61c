/** The domains of request fields, as the contract's decisions state them, for valibot. */
import * as v from "valibot";
import { type Refusal, refuse } from "../refusal.ts";

/** NUL, unpaired surrogates and U+FFFD (which is also what invalid UTF-8 becomes) are in no text. */
export function isCleanText(text: string): boolean {
  return !UNCLEAN.test(text) && text.isWellFormed();
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what is looked for.
const UNCLEAN = /[\u0000\uFFFD]/;

/** An optional text of at most so many characters; null counts as absent. */
export function optionalText(name: string, maxCharacters: number) {
  return v.nullish(
    v.pipe(
      v.string(`${name} must be a string`),
      v.check(
        (text) => [...text].length <= maxCharacters,
        `${name} must have at most ${maxCharacters} characters`,
      ),
      v.check(isCleanText, `${name} must not hold NUL, unpaired surrogates or U+FFFD`),
      inJsonSchema({ maxLength: maxCharacters }),
    ),
  );
}

/** Says in JSON Schema what a check of our own says in code, for the OpenAPI document. */
function inJsonSchema<Input>(keywords: Readonly<Record<string, unknown>>) {
  return v.metadata<Input, { readonly jsonSchema: typeof keywords }>({ jsonSchema: keywords });
}

/** Metadata is at most so large as JSON … */
const METADATA_LIMIT_BYTES = 16 * 1024;
/** … and so deep, itself the first level. */
const METADATA_LEVELS = 32;

/** An optional object whose keys and texts are clean and whose numbers are finite; null counts as absent. */
export function optionalMetadata(name: string) {
  return v.nullish(
    v.pipe(
      v.custom<Readonly<Record<string, unknown>>>(
        (value) => typeof value === "object" && value !== null && !Array.isArray(value),
        `${name} must be an object`,
      ),
      v.check(
        (value) => isStorable(value, METADATA_LEVELS),
        `${name} must have at most ${METADATA_LEVELS} levels, finite numbers, and text without NUL, ` +
          "unpaired surrogates or U+FFFD",
      ),
      v.check(
        (value) => Buffer.byteLength(JSON.stringify(value)) <= METADATA_LIMIT_BYTES,
        `${name} must have at most ${METADATA_LIMIT_BYTES} bytes as JSON`,
      ),
      inJsonSchema({
        type: "object",
        description: `At most ${METADATA_LIMIT_BYTES} bytes as JSON and ${METADATA_LEVELS} levels`,
      }),
    ),
  );
}

function isStorable(value: unknown, levels: number): boolean {
  if (typeof value === "string") return isCleanText(value);
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) return value.every((element) => isStorable(element, levels - 1));
  return Object.entries(value).every(([key, field]) => isCleanText(key) && isStorable(field, levels - 1));
}

/** Checks fields against a schema; refuses with the first issue's sentence. Unknown fields are ignored. */
export function parseFields<Schema extends v.GenericSchema>(
  schema: Schema,
  fields: unknown,
): v.InferOutput<Schema> | Refusal {
  const parsed = v.safeParse(schema, fields, { abortEarly: true });
  return parsed.success ? parsed.output : refuse("INVALID_REQUEST", parsed.issues[0].message);
}
