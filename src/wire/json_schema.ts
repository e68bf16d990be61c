/** Renders schemas of valibot as JSON Schema. */
import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";

export type Json = Readonly<Record<string, unknown>>;

/** Returns the reference to a component. */
export function refTo(kind: "schemas" | "headers" | "responses", name: string) {
  return { $ref: `#/components/${kind}/${name}` };
}

/**
 * Renders schemas by their names. A schema refers to the other named schemas that it contains.
 *
 * `input` renders the text that a request sends, `output` the value that this text stands for.
 */
export function renderSchemas(
  schemas: Readonly<Record<string, GenericSchema>>,
  typeMode: "input" | "output" = "input",
): Readonly<Record<string, Json>> {
  return toJsonSchemaDefs(schemas, {
    target: "draft-2020-12",
    typeMode,
    errorMode: "throw",
    // `inJsonSchema` (`base/rule.ts`) describes the checks; numbers in JSON are always finite.
    ignoreActions: ["check", "raw_check", "finite", "transform", "raw_transform"],
    overrideSchema: ({ valibotSchema }) => (valibotSchema.type === "custom" ? {} : undefined),
    overrideAction: ({ valibotAction, jsonSchema }) =>
      valibotAction.type === "metadata" ? withKeywordsOf(valibotAction, { ...jsonSchema }) : undefined,
    overrideRef: ({ referenceId }) => refTo("schemas", referenceId).$ref,
  }) as Readonly<Record<string, Json>>;
}

/**
 * Returns the schema with the keywords of `inJsonSchema` at its top level, without the property that held them. If they
 * name another type, they replace the keywords of the first one.
 */
function withKeywordsOf(action: object, { jsonSchema: _, ...schema }: Json): Json {
  const metadata: unknown = "metadata" in action ? action.metadata : undefined;
  const isOurs = typeof metadata === "object" && metadata !== null && "jsonSchema" in metadata;
  if (!isOurs) return schema;
  const keywords = metadata.jsonSchema as Json;
  const isSameType = (keywords.type ?? schema.type) === schema.type;
  return isSameType ? { ...schema, ...keywords } : keywords;
}

/** Moves the defaults of fields into their descriptions: generated clients would require a field with a default. */
export function withoutDefaults(schema: Json): Json {
  if (schema.properties === undefined) return schema;
  const fields = Object.entries(schema.properties as Record<string, Json>).map(([name, field]) => {
    const { default: preset, description, ...rest } = field;
    if (preset === undefined) return [name, field];
    const sentence = `${description === undefined ? "B" : `${description}; b`}y default ${preset}`;
    return [name, { ...rest, description: sentence }];
  });
  return { ...schema, properties: Object.fromEntries(fields) };
}
