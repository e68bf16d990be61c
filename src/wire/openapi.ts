/**
 * Renders the interface of a listener as an OpenAPI 3.1 document, so that developers can generate clients from it. The
 * listener describes its operations and states the facts of the document; nothing here knows a route.
 */
import type { GenericSchema } from "valibot";
import type { Code } from "../base/refusal.ts";
import { statusOf, toWireCode } from "./error_response.ts";
import { type Json, refTo, renderSchemas, withoutDefaults } from "./json_schema.ts";
import type { DescribedAnswer, DescribedOperation } from "./openapi_operation.ts";

/** The facts about all operations of a listener. */
interface Facts {
  readonly info: Json;
  readonly servers: readonly Json[];
  /** The description of each group of operations, by its name. */
  readonly tags: Readonly<Record<string, string>>;
  readonly security?: readonly Json[];
  readonly securitySchemes: Json;
  /** The schemas of bodies, by their names. */
  readonly schemas: Readonly<Record<string, GenericSchema>>;
  /** The description of each header, by its name. */
  readonly headers: Readonly<Record<string, Json>>;
  /** The condition under which each code is answered. */
  readonly conditions: Readonly<Partial<Record<Code, string>>>;
  /** The statuses of refusals that come before a request is counted. */
  readonly uncounted: readonly number[];
  /** True if equal refusals are described once for all operations, as a component. */
  readonly sharesRefusals?: boolean;
  /** Paths that are no operations of the listener, as the document has them. */
  readonly otherPaths?: Readonly<Record<string, Json>>;
}

/** The headers of an answer whose request was counted in a window. */
const WINDOW_HEADERS = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/** The headers that only refusals of a status have. A listener that does not describe a header does not send it. */
const HEADERS_OF_STATUS: Readonly<Record<number, string>> = {
  401: "WWW-Authenticate",
  405: "Allow",
  415: "Accept-Encoding",
  416: "Content-Range",
  429: "Retry-After",
  503: "Retry-After",
};

/** Renders the document. */
export function renderOpenApi(operations: readonly DescribedOperation[], facts: Facts): string {
  const { info, servers, security, securitySchemes, headers, sharesRefusals } = facts;
  const paths: Record<string, Json> = {};
  const responses: Record<string, Json> = {};
  for (const operation of operations) {
    const { path, method } = operation;
    paths[path] = { ...paths[path], [method]: renderOperation(operation, facts, responses) };
  }
  const schemas = Object.entries(renderSchemas(facts.schemas));
  return JSON.stringify({
    openapi: "3.1.1",
    info,
    servers,
    tags: Object.entries(facts.tags).map(([name, description]) => ({ name, description })),
    security,
    paths: { ...paths, ...facts.otherPaths },
    components: {
      schemas: Object.fromEntries(schemas.map(([name, schema]) => [name, withoutDefaults(schema)])),
      headers,
      ...(sharesRefusals && { responses }),
      securitySchemes,
    },
  });
}

/** Renders an operation. Adds its refusals to `shared` if the operations of the document share them. */
function renderOperation(operation: DescribedOperation, facts: Facts, shared: Record<string, Json>): Json {
  const { id, about, parameters = [], request, file } = operation;
  const responses: Record<string, Json> = {};
  for (const answer of [operation.success, ...(operation.others ?? [])])
    responses[answer.status ?? 200] = renderAnswer(answer, operation, facts);
  for (const [status, ofStatus] of Map.groupBy(operation.codes, statusOf)) {
    const refusals = renderAnswer(toAnswer(status, ofStatus, facts), operation, facts);
    const name = nameOf(ofStatus);
    if (facts.sharesRefusals) shared[name] = refusals;
    responses[status] = facts.sharesRefusals ? refTo("responses", name) : refusals;
  }
  return {
    operationId: id,
    ...about,
    parameters: parameters.length > 0 ? parameters : undefined,
    requestBody: file
      ? { required: true, description: file, content: { "application/octet-stream": {} } }
      : request && {
          required: request.required,
          description: request.description,
          content: {
            "application/json": { schema: refTo("schemas", request.schema), example: request.example },
          },
        },
    responses,
  };
}

/** Renders an answer. That to HEAD has no body. */
function renderAnswer(
  answer: DescribedAnswer,
  { method, isCounted }: DescribedOperation,
  { uncounted }: Facts,
): Json {
  const { status = 200, description, schema, example, content, headers = [] } = answer;
  if (status === "default") return { description };
  const window = isCounted && !uncounted.includes(status) ? WINDOW_HEADERS : [];
  const names = ["X-Request-Id", ...window, ...headers];
  const json = schema && { "application/json": { schema: refTo("schemas", schema), example } };
  const hasBody = method !== "head" && (json || content);
  return {
    description,
    headers: Object.fromEntries(names.map((name) => [name, refTo("headers", name)])),
    content: hasBody ? { ...json, ...content } : undefined,
  };
}

/** The codes with `Retry-After` whose status has other codes without it. */
const CODES_TO_WAIT_FOR: readonly Code[] = ["MACHINE_LIMIT_REACHED", "RELEASE_LIMIT_REACHED"];

/** The schemas of errors that have more fields than the others. */
const SCHEMAS: Partial<Record<Code, string>> = {
  NOT_CONFIGURED: "NotConfigured",
  MACHINE_LIMIT_REACHED: "NoPlace",
};

/** Returns the answer for the refusals of one status, each with its condition and an example. */
function toAnswer(status: number, codes: readonly Code[], { conditions, headers }: Facts): DescribedAnswer {
  const schemas = new Set(codes.map((code) => SCHEMAS[code] ?? "Error"));
  const references = [...schemas].sort().map((name) => refTo("schemas", name));
  // Not an enumeration: a client that is generated today must accept codes that are added later.
  const only = { properties: { code: { type: "string", "x-extensible-enum": codes.map(toWireCode) } } };
  const examples = codes.map((internalCode) => {
    const error = conditions[internalCode];
    const code = toWireCode(internalCode);
    const more = {
      ...(code === "NOT_CONFIGURED" && { message: error }),
      ...(code === "MACHINE_LIMIT_REACHED" && { machines: { limit: 30, used: 30 } }),
    };
    return [code, { value: { error, code, ...more } }] as const;
  });
  const own = codes.some((code) => CODES_TO_WAIT_FOR.includes(code))
    ? "Retry-After"
    : HEADERS_OF_STATUS[status];
  return {
    status,
    description: codes.map((code) => `\`${toWireCode(code)}\`: ${conditions[code]}`).join(". "),
    headers: own !== undefined && own in headers ? [own] : [],
    content: {
      "application/json": {
        // Not beside the reference: some generators of clients then ignore the reference.
        schema: { allOf: [references.length === 1 ? references[0] : { anyOf: references }, only] },
        examples: Object.fromEntries(examples),
      },
    },
  };
}

/** Returns the name of the answer with these codes, such as `NotAllowedOrScopeRequired`. */
function nameOf(codes: readonly Code[]): string {
  return codes.map((code) => toPascalCase(code.toLowerCase())).join("Or");
}

/** Returns a name such as `list_keys` or `listKeys` as `ListKeys`. */
export function toPascalCase(text: string): string {
  return text.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
}
