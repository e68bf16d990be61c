/** The operations of the service itself, which need no key: its public keys, its health, and this document. */
import { API_VERSION } from "../health_routes.ts";
import type { EndpointOperation } from "./operation.ts";

const KEYS: EndpointOperation = {
  path: "/.well-known/jwks.json",
  method: "get",
  id: "getPublicKeys",
  summary: "Get the public keys that verify signed licenses",
  description: "The signing key, its successor, and older keys whose licenses may still be in use.",
  success: { schema: "PublicKeys", description: "A JWK set", headers: ["ETag"] },
  others: [{ status: 304, description: "The keys have not changed", headers: ["ETag"] }],
  codes: ["SERVICE_UNAVAILABLE"],
};

const HEALTH_EXAMPLE = { timestamp: "2026-11-20T10:00:00Z", version: API_VERSION };

const HEALTH: EndpointOperation = {
  path: "/api/health",
  method: "get",
  id: "getHealth",
  summary: "Check the health of the service",
  description: "The service is healthy as long as it can validate keys.",
  success: {
    schema: "Healthy",
    description: "The service is healthy",
    example: { status: "healthy", ...HEALTH_EXAMPLE, database: "connected" },
  },
  others: [
    {
      status: 503,
      schema: "Unhealthy",
      description: "The service is stopping, or its database does not answer",
      example: {
        status: "unhealthy",
        ...HEALTH_EXAMPLE,
        database: "disconnected",
        error: "The database does not answer",
      },
    },
  ],
  codes: [],
};

const DOCUMENT: EndpointOperation = {
  path: "/openapi.json",
  method: "get",
  id: "getOpenApi",
  summary: "Get this document",
  description: "The document changes with the version of the service and with its settings.",
  success: { schema: "OpenApi", description: "The document", headers: ["ETag"] },
  others: [{ status: 304, description: "`If-None-Match` names the document's tag", headers: ["ETag"] }],
  codes: [],
};

/** The operations that need no key. */
export const OWN_OPERATIONS: readonly EndpointOperation[] = [
  ...withHead(KEYS, "The headers alone"),
  ...withHead(HEALTH, "The service is healthy"),
  ...withHead(DOCUMENT, "The document exists"),
];

/** Returns an operation with GET, and the same with HEAD. */
function withHead(get: EndpointOperation, description: string): EndpointOperation[] {
  const id = get.id.replace("get", "head");
  return [get, { ...get, method: "head", id, success: { ...get.success, description } }];
}
