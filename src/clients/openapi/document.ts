/**
 * Describes the interface for clients as an OpenAPI document.
 *
 * Bodies come from the schemas that check them (`schemas.ts`), statuses from the table of codes, names from the brand,
 * and numbers from the limits in the settings. Facts that the program states nowhere else, such as the codes that an
 * endpoint may answer, stand beside its handler.
 */
import type { ClientCode } from "../../base/refusal.ts";
import {
  CLIENT_CODES,
  COMMON_HEADERS,
  conditionFor,
  type DescribedOperation,
  GROWING_ENDPOINTS,
  header,
  type Json,
  optionalNumber,
  renderOpenApi,
} from "../../wire/mod.ts";
import type { AppOptions } from "../app_options.ts";
import { API_VERSION } from "../health_routes.ts";
import type { EndpointOperation } from "../operation.ts";
import { type ClientRoute, isLimited } from "../serve.ts";
import { createSchemas } from "./schemas.ts";

/** The limits are requests a minute; 0 means no limit. */
export type DocumentOptions = Pick<AppOptions, "brand" | "publicUrl" | "limits">;

/** What the document needs of a route. */
export type DescribedRoute = Pick<ClientRoute, "path" | "endpoint" | "operations">;

/** The description of each header of answers, by its name. */
const HEADERS = {
  ...COMMON_HEADERS,
  "Retry-After": optionalNumber(
    "Whole seconds to wait; never with `QUOTA_EXCEEDED`; with `NOT_CONFIGURED` only if waiting can help",
    1,
  ),
  "Accept-Ranges": header("Tells that ranges of bytes can be requested", { const: "bytes" }),
  "Content-Range": header(
    "The range of bytes in this answer and the size of the file; with a 416, only the size",
    { pattern: "^bytes (\\d+-\\d+|\\*)/\\d+$" },
  ),
  "Content-Disposition": header("The name to save the file under"),
};

/** The groups of operations, by the second segment of the path; operations without a limit are in `service`. */
const TAGS = {
  auth: "A key and its license",
  installer: "The token of the package repository",
  models: "The list of models and their files",
  machines: "The machines on which a license runs",
  analytics: "Usage events",
  service: "The service itself: these operations need no key",
};

/** The codes that every endpoint may answer. */
const EVERYWHERE: readonly ClientCode[] = ["METHOD_NOT_ALLOWED", "SERVER_ERROR"];

/** Renders the document of the routes. It depends only on the options, and holds no key. */
export function renderDocument(
  { brand, limits, publicUrl }: DocumentOptions,
  routes: readonly DescribedRoute[],
): string {
  const all = routes.flatMap((route) =>
    METHODS.flatMap((method) => {
      const operation = route.operations[method];
      return operation === undefined ? [] : [toOperation(operation, { route, method, limits })];
    }),
  );
  return renderOpenApi(all, {
    info: {
      title: "Licensing and model registry",
      version: API_VERSION,
      description:
        "Validates API keys, lists models, issues the installer's repository token and takes usage events. " +
        "If you do not know the `code` of an error, use the status. A path that is not listed here gets 404 " +
        "`NOT_FOUND`.",
    },
    servers: [{ url: publicUrl ?? "/" }],
    tags: TAGS,
    schemas: createSchemas(brand),
    headers: HEADERS,
    conditions: Object.fromEntries(CLIENT_CODES.map((code) => [code, conditionFor(code)])),
    uncounted: [405],
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
  });
}

const METHODS = ["get", "head", "post"] as const;
type Method = (typeof METHODS)[number];

interface Place extends Pick<DocumentOptions, "limits"> {
  readonly route: DescribedRoute;
  readonly method: Method;
}

/** Adds what follows from the path, the method and the limit of an endpoint. */
function toOperation(
  operation: EndpointOperation,
  { route: { path, endpoint }, method, limits }: Place,
): DescribedOperation {
  const { summary, description, codes } = operation;
  const isCounted = isLimited(endpoint);
  const perMinute = isCounted ? limits[endpoint] : 0;
  const sentences = [description, perMinute > 0 ? describeLimit(endpoint, perMinute) : undefined];
  return {
    ...operation,
    path: path.replaceAll(/:(\w+)/g, "{$1}"),
    method,
    about: {
      summary,
      tags: [isCounted ? (path.split("/")[2] ?? "") : "service"],
      description: sentences.filter((sentence) => sentence !== undefined).join(" ") || undefined,
      security: isCounted ? securityOf(operation, method) : [],
    },
    // The headers are listed also if the limit is off: a client that is generated now must handle a limit set later.
    isCounted,
    codes: [...codes, ...EVERYWHERE],
  };
}

function describeLimit(endpoint: ClientRoute["endpoint"], perMinute: number): string {
  const grows = GROWING_ENDPOINTS.some((growing) => growing === endpoint);
  const more = grows ? ", and at least as many as the license has places, up to 5000" : "";
  return `At most ${perMinute} requests a minute${more}.`;
}

/** Returns the places where the key may be; an empty place means the body, or a signed address. */
function securityOf({ isLink }: EndpointOperation, method: Method): Json[] {
  const inQuery = method === "get" ? [{ ApiKeyQuery: [] }] : [];
  const elsewhere = method === "post" || isLink === true ? [{}] : [];
  return [{ ApiKeyHeader: [] }, ...inQuery, ...elsewhere];
}
