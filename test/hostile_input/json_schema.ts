/**
 * The part of JSON Schema that the service's OpenAPI document uses. An unknown keyword throws, so that no rule of a
 * schema is ignored. One rule is stricter than the standard: an object may only have the fields that its schema
 * names, unless the schema allows additional properties.
 */

/** A schema, parsed from JSON. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Returns the fault of a value, and its place; undefined if nothing is wrong. */
export type SchemaCheck = (value: unknown) => string | undefined;

type Check = (value: unknown, at: string) => string | undefined;

/** Keywords without a rule for values, and keywords that `properties()` handles. */
const WITHOUT_CHECK = new Set([
  "description",
  "x-extensible-enum",
  "examples",
  "example",
  "title",
  "properties",
  "required",
]);

/** Returns the check of a schema; its `$ref`s refer to `components`, an object such as `{schemas: {…}}`. */
export function compileSchema(schema: JsonSchema, components: { readonly schemas: JsonSchema }): SchemaCheck {
  const named = new Map<string, Check>();
  const check = compile(schema, { components, named });
  return (value) => check(value, "the body");
}

interface Scope {
  readonly components: { readonly schemas: JsonSchema };
  readonly named: Map<string, Check>;
}

function compile(schema: JsonSchema, scope: Scope, { isPart = false } = {}): Check {
  const checks: Check[] = [];
  const hasAlternatives = isPart || "$ref" in schema || "anyOf" in schema;
  for (const [keyword, operand] of Object.entries(schema)) {
    if (WITHOUT_CHECK.has(keyword)) continue;
    const make = KEYWORDS[keyword];
    if (make === undefined) throw new Error(`Cannot compile schema: ${keyword} is not known`);
    checks.push(make(operand, scope));
  }
  // Beside alternatives and in `allOf`, the properties only add rules: others name the allowed fields.
  if ("properties" in schema) checks.push(properties(schema, { scope, isClosed: !hasAlternatives }));
  return all(checks);
}

function all(checks: readonly Check[]): Check {
  return (value, at) => {
    for (const check of checks) {
      const problem = check(value, at);
      if (problem !== undefined) return problem;
    }
    return undefined;
  };
}

const KEYWORDS: Readonly<Record<string, (operand: unknown, scope: Scope) => Check>> = {
  $ref: (operand, scope) => reference(String(operand), scope),
  anyOf: (operand, scope) => {
    const choices = (operand as JsonSchema[]).map((choice) => compile(choice, scope));
    return (value, at) => {
      const problems = choices.map((choice) => choice(value, at));
      return problems.includes(undefined) ? undefined : problems.join(", or ");
    };
  },
  allOf: (operand, scope) =>
    all((operand as JsonSchema[]).map((part) => compile(part, scope, { isPart: true }))),
  type: (operand) => {
    const isOf = TYPES[String(operand)];
    if (isOf === undefined) throw new Error(`Cannot compile schema: type ${operand} is not known`);
    return (value, at) => (isOf(value) ? undefined : `${at} is not of type ${operand}`);
  },
  enum: (operand) => (value, at) =>
    (operand as unknown[]).includes(value) ? undefined : `${at} is none of ${JSON.stringify(operand)}`,
  const: (operand) => (value, at) => (value === operand ? undefined : `${at} is not ${operand}`),
  pattern: (operand) => {
    const pattern = new RegExp(String(operand), "u");
    return (value, at) =>
      typeof value !== "string" || pattern.test(value) ? undefined : `${at} does not match ${operand}`;
  },
  format: (operand) => {
    if (operand !== "date-time") throw new Error(`Cannot compile schema: format ${operand} is not known`);
    return (value, at) => (Number.isNaN(Date.parse(String(value))) ? `${at} is not a time` : undefined);
  },
  minimum: (operand) => (value, at) =>
    typeof value !== "number" || value >= Number(operand) ? undefined : `${at} is below ${operand}`,
  maximum: (operand) => (value, at) =>
    typeof value !== "number" || value <= Number(operand) ? undefined : `${at} is above ${operand}`,
  items: (operand, scope) => {
    const item = compile(operand as JsonSchema, scope);
    return (value, at) => {
      if (!Array.isArray(value)) return undefined;
      for (const [index, each] of value.entries()) {
        const problem = item(each, `${at}[${index}]`);
        if (problem !== undefined) return problem;
      }
      return undefined;
    };
  },
  minItems: (operand) => (value, at) =>
    !Array.isArray(value) || value.length >= Number(operand) ? undefined : `${at} has too few items`,
  maxItems: (operand) => (value, at) =>
    !Array.isArray(value) || value.length <= Number(operand) ? undefined : `${at} has too many items`,
  // The names of a JSON object are always strings. Any other rule needs a check of its own.
  propertyNames: (operand) => {
    if (JSON.stringify(operand) === '{"type":"string"}') return () => undefined;
    throw new Error("Cannot compile schema: propertyNames may only have the type string");
  },
  maxLength: (operand) => (value, at) =>
    typeof value !== "string" || [...value].length <= Number(operand) ? undefined : `${at} is too long`,
  minLength: (operand) => (value, at) =>
    typeof value !== "string" || [...value].length >= Number(operand) ? undefined : `${at} is too short`,
  // `properties()` refuses the other fields. Without `properties` each field must match.
  additionalProperties: (operand, scope) => {
    const isAny = typeof operand === "boolean" || Object.keys(operand as JsonSchema).length === 0;
    const each = isAny ? undefined : compile(operand as JsonSchema, scope);
    return (value, at) => {
      if (each === undefined || typeof value !== "object" || value === null) return undefined;
      for (const [name, inner] of Object.entries(value)) {
        const problem = each(inner, `${at}.${name}`);
        if (problem !== undefined) return problem;
      }
      return undefined;
    };
  },
};

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  null: (value) => value === null,
  array: Array.isArray,
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

function reference(target: string, scope: Scope): Check {
  const name = target.replace("#/components/schemas/", "");
  return (value, at) => {
    let check = scope.named.get(name);
    if (check === undefined) {
      const schema = scope.components.schemas[name];
      if (schema === undefined) throw new Error(`Cannot check a value: there is no schema ${target}`);
      check = compile(schema as JsonSchema, scope);
      scope.named.set(name, check);
    }
    return check(value, at);
  };
}

function properties(
  schema: JsonSchema,
  options: { readonly scope: Scope; readonly isClosed: boolean },
): Check {
  const named = new Map(
    Object.entries(schema.properties as Record<string, JsonSchema>).map(([name, each]) => [
      name,
      compile(each, options.scope),
    ]),
  );
  const required = (schema.required ?? []) as readonly string[];
  const isClosed = options.isClosed && !(schema.additionalProperties ?? false);
  return (value, at) => {
    if (typeof value !== "object" || value === null) return undefined;
    for (const name of required) if (!Object.hasOwn(value, name)) return `${at} has no ${name}`;
    for (const [name, each] of Object.entries(value)) {
      const check = named.get(name);
      const problem = check?.(each, `${at}.${name}`);
      if (problem !== undefined) return problem;
      if (check === undefined && isClosed) return `${at} has ${name}, which is not documented`;
    }
    return undefined;
  };
}
