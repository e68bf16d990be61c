/**
 * Renders the interface as an OpenAPI 3.1 document, so that developers can generate clients from it.
 *
 * Bodies come from the schemas that check them (`schemas.ts`), statuses from the table of codes, names from the brand,
 * and numbers from the limits in the settings. Facts that the program states nowhere else, such as the codes that an
 * endpoint may answer, are in `operations.ts`.
 */
import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import type { Brand } from "../../brand.ts";
import type { LimitedEndpoint } from "../../endpoints.ts";
import type { ClientCode } from "../../refusal.ts";
import { BODY_LIMIT_BYTES, statusOf, toWireCode } from "../../wire/mod.ts";
import { API_VERSION } from "../health_routes.ts";
import { HEADERS, type HeaderName } from "./headers.ts";
import type { Json, Operation, Success } from "./operation.ts";
import { operations } from "./operations.ts";
import { createSchemas, type SchemaName } from "./schemas.ts";

export interface OpenApiOptions {
  readonly brand: Brand;
  /** The address at which clients reach the service, without a slash at its end; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  /** The limits in requests a minute; 0 means no limit. */
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
}

/** The condition under which each code is answered. */
const CONDITIONS: Readonly<Record<ClientCode, string>> = {
  MISSING_KEY: "The request carries no key",
  INVALID_FORMAT: "The key is malformed",
  MISSING_EVENT_TYPE: "The event has no type",
  INVALID_REQUEST:
    "The body is not a JSON object, a field has a value that is not allowed, or the request carries two different keys",
  INVALID_KEY: "The key is unknown, suspended or revoked",
  INVALID_LINK: "The download link has expired or was altered: list the models again for a new one",
  KEY_EXPIRED: "The key's license has expired",
  LICENSE_REQUIRED: "The model requires a higher tier, which the error names",
  KEY_NOT_FOUND: "The key is unknown or already revoked",
  NOT_FOUND: "There is nothing at this path, or no such model",
  METHOD_NOT_ALLOWED: "The method is not in the list of `Allow`",
  PAYLOAD_TOO_LARGE: `The body has more than ${BODY_LIMIT_BYTES} bytes`,
  UNSUPPORTED_MEDIA_TYPE: "The body is encoded: leave out `Content-Encoding`",
  CLAIM_MISMATCH: "The `Idempotency-Key` was sent with another event; the error names the field that differs",
  RANGE_NOT_SATISFIABLE: "The range lies beyond the file's end",
  QUOTA_EXCEEDED: "The monthly quota is used up",
  RATE_LIMIT_EXCEEDED: "Too many requests within a minute: wait as `Retry-After` says",
  SERVER_ERROR: "Internal error",
  NOT_CONFIGURED:
    "The service has no repository token at present; without `Retry-After`, the operator must act first",
  SERVICE_UNAVAILABLE: "The database does not answer in time: try again as `Retry-After` says",
};

/** The groups of operations, by the second segment of the path; operations without a limit are in `service`. */
const TAGS: Readonly<Record<string, string>> = {
  auth: "A key and its license",
  installer: "The token of the package repository",
  models: "The list of models and their files",
  analytics: "Usage events",
  service: "The service itself: these operations need no key",
};

/** The codes that every endpoint may answer. */
const EVERYWHERE: readonly ClientCode[] = ["METHOD_NOT_ALLOWED", "SERVER_ERROR"];
const WINDOW_HEADERS: readonly HeaderName[] = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
];

/** Renders the document. It depends only on the options, and holds no key. */
export function renderOpenApi(options: OpenApiOptions): string {
  const { brand } = options;
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations(brand)) {
    paths[operation.path] ??= {};
    Object.assign(paths[operation.path] ?? {}, { [operation.method]: renderOperation(operation, options) });
  }
  return JSON.stringify({
    openapi: "3.1.1",
    info: {
      title: "Licensing and model registry",
      version: API_VERSION,
      description:
        "Validates API keys, lists models, issues the installer's repository token and takes usage events. " +
        "If you do not know the `code` of an error, use the status. A path that is not listed here gets 404 " +
        "`NOT_FOUND`.",
    },
    servers: [{ url: options.publicUrl ?? "/" }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: renderSchemas(brand),
      headers: HEADERS,
      responses: { NotFound: renderRefusals(["NOT_FOUND"], []) },
      securitySchemes: {
        ApiKeyHeader: {
          type: "apiKey",
          in: "header",
          name: "X-API-Key",
          description:
            "Accepted by every endpoint. A POST may carry the key in the field `api_key` of its body instead; " +
            "therefore its security may also be empty.",
        },
        ApiKeyQuery: {
          type: "apiKey",
          in: "query",
          name: "api_key",
          description: "Accepted by GET; discouraged, because addresses are logged",
        },
      },
    },
  });
}

function renderSchemas(brand: Brand): Json {
  return toJsonSchemaDefs(createSchemas(brand), {
    target: "draft-2020-12",
    typeMode: "input",
    errorMode: "throw",
    // `inJsonSchema` (`fields.ts`) describes the checks; numbers in JSON are always finite.
    ignoreActions: ["check", "finite"],
    overrideSchema: ({ valibotSchema }) => (valibotSchema.type === "custom" ? {} : undefined),
    overrideAction: ({ valibotAction, jsonSchema }) =>
      valibotAction.type === "metadata" ? withKeywordsOf(valibotAction, { ...jsonSchema }) : undefined,
    overrideRef: ({ referenceId }) => refTo("schemas", referenceId),
  });
}

/** Returns the schema with the keywords of `inJsonSchema` at its top level, without the property that held them. */
function withKeywordsOf(action: object, { jsonSchema: _, ...schema }: Json): Json {
  const metadata: unknown = "metadata" in action ? action.metadata : undefined;
  const isOurs = typeof metadata === "object" && metadata !== null && "jsonSchema" in metadata;
  return isOurs ? { ...schema, ...(metadata.jsonSchema as Json) } : schema;
}

function renderOperation(operation: Operation, { limits }: OpenApiOptions): Json {
  const { id, summary, description, method, limit, request, parameters, successes } = operation;
  const perMinute = limit === undefined ? 0 : limits[limit];
  const sentences = [description, perMinute > 0 ? `At most ${perMinute} requests a minute.` : undefined];
  const text = sentences.filter((sentence) => sentence !== undefined).join(" ");
  // The headers are listed also if the limit is off: a client that is generated now must handle a limit set later.
  const windowHeaders = limit === undefined ? [] : WINDOW_HEADERS;

  const responses: Record<string, Json> = {};
  for (const success of successes) responses[success.status] = renderSuccess(success, windowHeaders);
  for (const [status, codes] of Map.groupBy([...operation.codes, ...EVERYWHERE], statusOf)) {
    const { content, ...head } = renderRefusals(codes, windowHeaders);
    responses[status] = method === "head" ? head : { ...head, content };
  }
  return {
    operationId: id,
    summary,
    tags: [operation.limit === undefined ? "service" : (operation.path.split("/")[2] ?? "")],
    ...(text !== "" && { description: text }),
    security: securityOf(operation),
    ...(parameters !== undefined && { parameters }),
    ...(request !== undefined && {
      requestBody: {
        required: true,
        description:
          "The content type is ignored. Unknown fields are ignored. With the key in a header the body may be {}.",
        content: { "application/json": { schema: schemaRef(request.schema), example: request.example } },
      },
    }),
    responses,
  };
}

/** Returns the places where the key may be; an empty place means the body, or a signed address. */
function securityOf({ limit, method, isLink }: Operation): Json[] {
  if (limit === undefined) return [];
  const inQuery = method === "get" ? [{ ApiKeyQuery: [] }] : [];
  const elsewhere = method === "post" || isLink === true ? [{}] : [];
  return [{ ApiKeyHeader: [] }, ...inQuery, ...elsewhere];
}

function renderSuccess(success: Success, windowHeaders: readonly HeaderName[]): Json {
  const { schema, description, example, headers } = success;
  const json = schema && { "application/json": { schema: schemaRef(schema), ...(example && { example }) } };
  const content = success.content ?? json;
  return {
    description,
    headers: renderHeaders(["X-Request-Id", ...windowHeaders, ...(headers ?? [])]),
    ...(content !== undefined && { content }),
  };
}

/** Renders the refusals of one status, each with its condition and an example. */
function renderRefusals(codes: readonly ClientCode[], windowHeaders: readonly HeaderName[]): Json {
  const headers: HeaderName[] = ["X-Request-Id"];
  if (codes.includes("METHOD_NOT_ALLOWED")) headers.push("Allow");
  else headers.push(...windowHeaders);
  if (codes.includes("RATE_LIMIT_EXCEEDED") || codes.includes("SERVICE_UNAVAILABLE"))
    headers.push("Retry-After");
  if (codes.includes("RANGE_NOT_SATISFIABLE")) headers.push("Content-Range");
  if (codes.includes("UNSUPPORTED_MEDIA_TYPE")) headers.push("Accept-Encoding");
  const schemas = [
    ...(codes.some((code) => code !== "NOT_CONFIGURED") ? [schemaRef("Error")] : []),
    ...(codes.includes("NOT_CONFIGURED") ? [schemaRef("NotConfigured")] : []),
  ];
  // Not an enumeration: a client that is generated today must accept codes that are added later.
  const only = { properties: { code: { type: "string", "x-extensible-enum": codes.map(toWireCode) } } };
  const examples = codes.map((internalCode) => {
    const error = CONDITIONS[internalCode];
    const code = toWireCode(internalCode);
    return [code, { value: { error, code, ...(code === "NOT_CONFIGURED" && { message: error }) } }] as const;
  });
  return {
    description: codes.map((code) => `\`${toWireCode(code)}\`: ${CONDITIONS[code]}`).join(". "),
    headers: renderHeaders(headers),
    content: {
      "application/json": {
        schema: { ...(schemas.length === 1 ? schemas[0] : { anyOf: schemas }), ...only },
        examples: Object.fromEntries(examples),
      },
    },
  };
}

function renderHeaders(names: readonly HeaderName[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: refTo("headers", name) }]));
}

function schemaRef(name: SchemaName): Json {
  return { $ref: refTo("schemas", name) };
}

function refTo(kind: "schemas" | "headers", name: string): string {
  return `#/components/${kind}/${name}`;
}
