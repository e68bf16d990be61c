/** Schemas for the fields of answers, from which the OpenAPI documents are rendered. */
import * as v from "valibot";
import { type IdKind, toId } from "../base/ids.ts";

/** Returns a schema of the known values that also accepts others: clients must accept values that are added later. */
export function oneOfThese(known: readonly string[]) {
  return v.union([v.picklist(known), v.string()]);
}

/** Adds a description for the OpenAPI documents to a schema. */
export function described<Schema extends v.GenericSchema>(schema: Schema, text: string) {
  return v.pipe(schema, v.description(text));
}

/** Returns the schema of a whole number. */
export function count(least = 0) {
  return v.pipe(v.number(), v.safeInteger(), v.minValue(least));
}

/** Returns the schema of a time in UTC, to the second. */
export function timestamp() {
  return v.pipe(v.string(), v.isoTimestamp(), v.regex(/T\d\d:\d\d:\d\dZ$/));
}

/** Returns the schema of an identifier, such as `key_…`. */
export function identifier(kind: IdKind) {
  const example = toId(kind, "019a0000-0000-7000-8000-000000000000");
  return v.pipe(v.string(), v.regex(new RegExp(`^${kind}_[0-9a-f]{32}$`)), v.examples([example]));
}
