/**
 * Renders the interface as an OpenAPI 3.1 document, so that developers can generate clients from it.
 *
 * Bodies come from the schemas that check them (`schemas.ts`), statuses from the table of codes, names from the brand,
 * and numbers from the limits in the settings. Facts that the program states nowhere else, such as the codes that an
 * endpoint may answer, are in `operations.ts`.
 */
import type { Brand } from "../../brand.ts";
import type { LimitedEndpoint } from "../../endpoints.ts";
import type { ClientCode } from "../../refusal.ts";
import {
  COMMON_CONDITIONS,
  type Json,
  refTo,
  renderAnswer,
  renderRefusals,
  renderSchemas,
  statusOf,
  WINDOW_HEADERS,
} from "../../wire/mod.ts";
import { API_VERSION } from "../health_routes.ts";
import { HEADERS, type HeaderName } from "./headers.ts";
import type { EndpointOperation, EndpointSuccess } from "./operation.ts";
import { operations } from "./operations.ts";
import { createSchemas } from "./schemas.ts";

export interface OpenApiOptions {
  readonly brand: Brand;
  /** The address at which clients reach the service, without a slash at its end; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  /** The limits in requests a minute; 0 means no limit. */
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
}

/** The condition under which each code is answered. */
const CONDITIONS: Readonly<Record<ClientCode, string>> = {
  ...COMMON_CONDITIONS,
  MISSING_KEY: "The request carries no key",
  INVALID_FORMAT: "The key is malformed",
  MISSING_EVENT_TYPE: "The event has no type",
  INVALID_REQUEST:
    "The body is not a JSON object, a field has a value that is not allowed, or the request carries two different keys",
  INVALID_KEY: "The key is unknown, suspended or revoked",
  INVALID_LINK: "The download link has expired or was altered: list the models again for a new one",
  KEY_EXPIRED: "The key's license has expired",
  LICENSE_REQUIRED: "The model requires a higher tier, which the error names",
  OFFLINE_NOT_ALLOWED: "Licenses of this tier are not signed for use without a network",
  KEY_NOT_FOUND: "The key is unknown or already revoked",
  NOT_FOUND: "There is nothing at this path, or no such model",
  CLAIM_MISMATCH: "The `Idempotency-Key` was sent with another event; the error names the field that differs",
  RANGE_NOT_SATISFIABLE: "The range lies beyond the file's end",
  QUOTA_EXCEEDED: "The monthly quota is used up",
  NOT_CONFIGURED:
    "The service has no repository token at present; without `Retry-After`, the operator must act first",
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

/** Renders the document. It depends only on the options, and holds no key. */
export function renderOpenApi(options: OpenApiOptions): string {
  const { brand } = options;
  const paths: Record<string, Json> = {};
  for (const operation of operations(brand)) {
    const rendered = renderOperation(operation, options);
    paths[operation.path] = { ...paths[operation.path], [operation.method]: rendered };
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
      schemas: renderSchemas(createSchemas(brand)),
      headers: HEADERS,
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

function renderOperation(operation: EndpointOperation, { limits }: OpenApiOptions): Json {
  const { id, summary, description, method, limit, request, parameters, success, others = [] } = operation;
  const perMinute = limit === undefined ? 0 : limits[limit];
  const sentences = [description, perMinute > 0 ? `At most ${perMinute} requests a minute.` : undefined];
  const text = sentences.filter((sentence) => sentence !== undefined).join(" ");
  // The headers are listed also if the limit is off: a client that is generated now must handle a limit set later.
  const windowHeaders = limit === undefined ? [] : WINDOW_HEADERS;

  const responses: Record<string, Json> = {};
  for (const answer of [success, ...others])
    responses[answer.status ?? 200] = renderSuccess(answer, windowHeaders);
  for (const [status, codes] of Map.groupBy([...operation.codes, ...EVERYWHERE], statusOf)) {
    const { content, ...head } = renderClientRefusals(codes, windowHeaders);
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
        content: {
          "application/json": { schema: refTo("schemas", request.schema), example: request.example },
        },
      },
    }),
    responses,
  };
}

/** Returns the places where the key may be; an empty place means the body, or a signed address. */
function securityOf({ limit, method, isLink }: EndpointOperation): Json[] {
  if (limit === undefined) return [];
  const inQuery = method === "get" ? [{ ApiKeyQuery: [] }] : [];
  const elsewhere = method === "post" || isLink === true ? [{}] : [];
  return [{ ApiKeyHeader: [] }, ...inQuery, ...elsewhere];
}

function renderSuccess(success: EndpointSuccess, windowHeaders: readonly HeaderName[]): Json {
  const { schema, description, example, headers = [] } = success;
  const json = schema && {
    "application/json": { schema: refTo("schemas", schema), ...(example && { example }) },
  };
  return renderAnswer({
    description,
    headers: [...windowHeaders, ...headers],
    content: success.content ?? json,
  });
}

function renderClientRefusals(codes: readonly ClientCode[], windowHeaders: readonly HeaderName[]): Json {
  // A request with a wrong method is refused before it is counted.
  const headers = codes.includes("METHOD_NOT_ALLOWED") ? [] : windowHeaders;
  return renderRefusals(codes, { headers, conditions: CONDITIONS });
}
