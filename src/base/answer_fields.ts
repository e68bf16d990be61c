/**
 * The fields of things in answers, declared once: the same declaration gives the JSON of the API and of commands, and the
 * schema in the OpenAPI document.
 */
import * as v from "valibot";
import { type IdKind, toId } from "./ids.ts";

/** A field of an answer. */
interface AnswerField<Row> {
  /** What the OpenAPI document says of the value. */
  readonly schema: v.GenericSchema;
  /** Returns the value in JSON. */
  readonly of: (row: Row) => unknown;
}

type AnswerFields<Row> = Readonly<Record<string, AnswerField<Row>>>;

/**
 * Returns a function that declares a field of such rows: its schema, its value in JSON, and what the document says of it.
 * The compiler compares the value with the schema. Three arguments, because a list of fields is read as a table.
 *
 * @example
 * ```ts
 * const field = fieldsOf<{ readonly createdAt: Date }>();
 * const FIELDS = { created_at: field(timestamp(), ({ createdAt }) => toTimestamp(createdAt), "Its first day") };
 * renderFields(FIELDS, { createdAt: new Date(0) }); // {"created_at":"1970-01-01T00:00:00Z"}
 * ```
 */
export function fieldsOf<Row>() {
  return <Value, Shown extends Value>(
    schema: v.GenericSchema<Value>,
    of: (row: Row) => Shown,
    says?: string,
  ) => ({ schema: says === undefined ? schema : described(schema, says), of });
}

type ValuesOf<Fields extends AnswerFields<never>> = {
  [Name in keyof Fields]: ReturnType<Fields[Name]["of"]>;
};

/** Renders a row as JSON: its fields, in the order of their declaration. */
export function renderFields<Row, Fields extends AnswerFields<Row>>(
  fields: Fields & AnswerFields<Row>,
  row: Row,
): ValuesOf<Fields> {
  const values: Record<string, unknown> = {};
  for (const name in fields) values[name] = fields[name]?.of(row);
  return values as ValuesOf<Fields>;
}

type SchemasOf<Fields extends AnswerFields<never>> = { [Name in keyof Fields]: Fields[Name]["schema"] };

/** Returns the schemas of fields, by their names. */
export function schemasOf<Fields extends AnswerFields<never>>(fields: Fields): SchemasOf<Fields> {
  const schemas = Object.entries(fields).map(([name, { schema }]) => [name, schema]);
  return Object.fromEntries(schemas);
}

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
