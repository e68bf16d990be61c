/**
 * The parts that the OpenAPI documents of both listeners share: the rendering of schemas, headers and refusals. Each
 * listener has its own operations.
 */
import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";
import type { ClientCode, Code } from "../refusal.ts";
import { toWireCode } from "./error_response.ts";
import { BODY_LIMIT_BYTES } from "./read_body.ts";

export type Json = Readonly<Record<string, unknown>>;

/** The headers that answers of both listeners have, each as the document describes it. */
export const COMMON_HEADERS = {
  "X-Request-Id": {
    description: "The identifier of the request in the service's log",
    required: true,
    schema: { type: "string", pattern: "^req_[0-9a-f]{32}$" },
  },
  "X-RateLimit-Limit": {
    description:
      "Allowed requests a minute; all three X-RateLimit headers are absent if the limit is switched off",
    required: false,
    schema: { type: "integer", minimum: 1 },
  },
  "X-RateLimit-Remaining": {
    description: "How many requests are left now",
    required: false,
    schema: { type: "integer", minimum: 0 },
  },
  "X-RateLimit-Reset": {
    description: "The Unix second at which all requests would be available again",
    required: false,
    schema: { type: "integer", minimum: 0 },
  },
  "Accept-Encoding": {
    description: "The only encoding that a body may have: none",
    required: true,
    schema: { type: "string", const: "identity" },
  },
  Allow: {
    description: "The methods that the path accepts",
    required: true,
    schema: { type: "string" },
  },
  ETag: {
    description: "Strong: it changes with the bytes",
    required: true,
    schema: { type: "string" },
  },
} as const satisfies Readonly<Record<string, Json>>;

/** The headers of an answer whose request was counted in a window. */
export const WINDOW_HEADERS = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"] as const;

/** The condition under which each code is answered, for codes that mean the same on both listeners. */
export const COMMON_CONDITIONS = {
  METHOD_NOT_ALLOWED: "The method is not in the list of `Allow`",
  PAYLOAD_TOO_LARGE: `The body has more than ${BODY_LIMIT_BYTES} bytes`,
  UNSUPPORTED_MEDIA_TYPE: "The body is encoded: leave out `Content-Encoding`",
  RATE_LIMIT_EXCEEDED: "Too many requests within a minute: wait as `Retry-After` says",
  SERVER_ERROR: "Internal error",
} as const satisfies Partial<Readonly<Record<ClientCode, string>>>;

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
    // `inJsonSchema` (`fields.ts`) describes the checks; numbers in JSON are always finite.
    ignoreActions: ["check", "raw_check", "finite", "transform", "raw_transform"],
    overrideSchema: ({ valibotSchema }) => (valibotSchema.type === "custom" ? {} : undefined),
    overrideAction: ({ valibotAction, jsonSchema }) =>
      valibotAction.type === "metadata" ? withKeywordsOf(valibotAction, { ...jsonSchema }) : undefined,
    overrideRef: ({ referenceId }) => refTo("schemas", referenceId),
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

export interface RefusalsOptions<Known extends Code> {
  /** The names of the headers, besides `X-Request-Id`. */
  readonly headers: readonly string[];
  readonly conditions: Readonly<Record<Known, string>>;
  /** The schemas that the bodies may have; a body has one of them. */
  readonly schemas: readonly string[];
}

/** Renders the refusals of one status, each with its condition and an example. */
export function renderRefusals<Known extends Code>(
  codes: readonly Known[],
  { headers, conditions, schemas }: RefusalsOptions<Known>,
): Json {
  const references = schemas.map((name) => ({ $ref: refTo("schemas", name) }));
  // Not an enumeration: a client that is generated today must accept codes that are added later.
  const only = { properties: { code: { type: "string", "x-extensible-enum": codes.map(toWireCode) } } };
  const examples = codes.map((internalCode) => {
    const error = conditions[internalCode];
    const code = toWireCode(internalCode);
    return [code, { value: { error, code, ...(code === "NOT_CONFIGURED" && { message: error }) } }] as const;
  });
  return {
    description: codes.map((code) => `\`${toWireCode(code)}\`: ${conditions[code]}`).join(". "),
    headers: renderHeaders(["X-Request-Id", ...headers]),
    content: {
      "application/json": {
        schema: { ...(references.length === 1 ? references[0] : { anyOf: references }), ...only },
        examples: Object.fromEntries(examples),
      },
    },
  };
}

/** Returns the headers of an answer, as references. */
export function renderHeaders(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: refTo("headers", name) }]));
}

/** Returns the reference to a component. */
export function refTo(kind: "schemas" | "headers" | "responses", name: string): string {
  return `#/components/${kind}/${name}`;
}
