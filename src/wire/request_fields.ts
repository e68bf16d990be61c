/** Schemas for the fields of requests, with the limits that the contract sets. */
import * as v from "valibot";
import { type Refusal, refuse } from "../base/refusal.ts";
import { inJsonSchema, whyWrong } from "../base/rule.ts";
import { isStorableText } from "../database/mod.ts";

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

/** Checks fields against a schema. A refusal names the first wrong field. Unknown fields are ignored. */
export function parseFields<Schema extends v.GenericSchema>(
  schema: Schema,
  fields: unknown,
): v.InferOutput<Schema> | Refusal {
  const parsed = v.safeParse(schema, fields, { abortEarly: true });
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  return refuse("INVALID_REQUEST", `${v.getDotPath(issue)} ${whyWrong(issue)}`);
}
