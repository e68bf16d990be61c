/**
 * The parts that the OpenAPI documents of both listeners share: the rendering of schemas, headers, answers and
 * refusals. Each listener has its own operations.
 */
import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";
import type { ClientCode, Code } from "../refusal.ts";
import { statusOf, toWireCode } from "./error_response.ts";
import { BODY_LIMIT_BYTES } from "./read_body.ts";

export type Json = Readonly<Record<string, unknown>>;

/** Describes a header that an answer always has. It is a text unless the keywords of JSON Schema say otherwise. */
export function header(description: string, keywords: Json = {}): Json {
  return { description, required: true, schema: { type: "string", ...keywords } };
}

/** Describes a header with a whole number that an answer may lack. */
export function optionalNumber(description: string, minimum = 0): Json {
  return { description, required: false, schema: { type: "integer", minimum } };
}

/** The headers that answers of both listeners have, each as the document describes it. */
export const COMMON_HEADERS = {
  "X-Request-Id": header("The identifier of the request in the service's log", {
    pattern: "^req_[0-9a-f]{32}$",
  }),
  "X-RateLimit-Limit": optionalNumber(
    "Allowed requests a minute; all three X-RateLimit headers are absent if the limit is switched off",
    1,
  ),
  "X-RateLimit-Remaining": optionalNumber("How many requests are left now"),
  "X-RateLimit-Reset": optionalNumber("The Unix second at which all requests would be available again"),
  "Accept-Encoding": header("The only encoding that a body may have: none", { const: "identity" }),
  Allow: header("The methods that the path accepts"),
  ETag: header("Strong: it changes with the bytes"),
} as const satisfies Readonly<Record<string, Json>>;

/** The headers that only refusals of a status have. */
const HEADERS_OF_STATUS: Readonly<Record<number, string>> = {
  405: "Allow",
  415: "Accept-Encoding",
  416: "Content-Range",
  429: "Retry-After",
  503: "Retry-After",
};

/** The headers of an answer whose request was counted in a window. */
export const WINDOW_HEADERS = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"] as const;

/** The condition under which each code is answered, for codes that mean the same on both listeners. */
export const COMMON_CONDITIONS = {
  METHOD_NOT_ALLOWED: "The method is not in the list of `Allow`",
  PAYLOAD_TOO_LARGE: `The body has more than ${BODY_LIMIT_BYTES} bytes`,
  UNSUPPORTED_MEDIA_TYPE: "The body is encoded: leave out `Content-Encoding`",
  RATE_LIMIT_EXCEEDED: "Too many requests within a minute: wait as `Retry-After` says",
  SERVER_ERROR: "Internal error",
  SERVICE_UNAVAILABLE: "The database does not answer in time: try again as `Retry-After` says",
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

export interface AnswerOptions {
  readonly description: string;
  /** The names of the headers, besides `X-Request-Id`. */
  readonly headers: readonly string[];
  /** The body by its media types; undefined if there is none. */
  readonly content?: Json | undefined;
}

/** Renders an answer. */
export function renderAnswer({ description, headers, content }: AnswerOptions): Json {
  const references = ["X-Request-Id", ...headers].map((name) => [name, refTo("headers", name)]);
  return { description, headers: Object.fromEntries(references), ...(content !== undefined && { content }) };
}

export interface RefusalsOptions<Known extends Code> {
  /** The names of the headers, besides `X-Request-Id` and those that every refusal of the status has. */
  readonly headers: readonly string[];
  readonly conditions: Readonly<Partial<Record<Known, string>>>;
}

/** Renders the refusals of one status, each with its condition and an example. */
export function renderRefusals<Known extends Code>(
  codes: readonly Known[],
  { headers, conditions }: RefusalsOptions<Known>,
): Json {
  const schemas = new Set(codes.map((code) => (code === "NOT_CONFIGURED" ? "NotConfigured" : "Error")));
  const references = [...schemas].sort().map((name) => refTo("schemas", name));
  // Not an enumeration: a client that is generated today must accept codes that are added later.
  const only = { properties: { code: { type: "string", "x-extensible-enum": codes.map(toWireCode) } } };
  const examples = codes.map((internalCode) => {
    const error = conditions[internalCode];
    const code = toWireCode(internalCode);
    return [code, { value: { error, code, ...(code === "NOT_CONFIGURED" && { message: error }) } }] as const;
  });
  const own = HEADERS_OF_STATUS[statusOf(codes[0] ?? "SERVER_ERROR")];
  return renderAnswer({
    description: codes.map((code) => `\`${toWireCode(code)}\`: ${conditions[code]}`).join(". "),
    headers: own === undefined ? headers : [...headers, own],
    content: {
      "application/json": {
        // Not beside the reference: some generators of clients then ignore the reference.
        schema: { allOf: [references.length === 1 ? references[0] : { anyOf: references }, only] },
        examples: Object.fromEntries(examples),
      },
    },
  });
}

/** Returns the reference to a component. */
export function refTo(kind: "schemas" | "headers" | "responses", name: string) {
  return { $ref: `#/components/${kind}/${name}` };
}
