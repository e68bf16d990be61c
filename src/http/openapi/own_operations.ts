/** The operations of the service itself, which need no key: its health, and this document. */
import { API_VERSION } from "../health_routes.ts";
import type { HeaderName } from "./headers.ts";
import type { Operation } from "./operation.ts";

/** Returns the operations that need no key. One long function, because it is one table. */
export function ownOperations(): Operation[] {
  const health = {
    path: "/api/health",
    summary: "Check the health of the service",
    description: "The service is healthy as long as it can validate keys.",
    codes: [],
  } as const satisfies Partial<Operation>;
  const document = {
    path: "/openapi.json",
    summary: "Get this document",
    description: "The document changes with the version of the service and with its settings.",
    codes: [],
  } as const satisfies Partial<Operation>;
  const documentHeaders: readonly HeaderName[] = ["ETag"];
  const healthExample = { timestamp: "2026-11-20T10:00:00Z", version: API_VERSION };

  const keys = {
    path: "/.well-known/jwks.json",
    summary: "Get the public keys that verify signed licenses",
    description: "The signing key, its successor, and older keys whose licenses may still be in use.",
    codes: ["SERVICE_UNAVAILABLE"],
  } as const satisfies Partial<Operation>;

  return [
    {
      ...keys,
      method: "get",
      id: "getPublicKeys",
      successes: [
        { status: 200, schema: "PublicKeys", description: "A JWK set", headers: documentHeaders },
        { status: 304, description: "The keys have not changed", headers: documentHeaders },
      ],
    },
    {
      ...keys,
      method: "head",
      id: "headPublicKeys",
      successes: [
        { status: 200, description: "The headers alone", headers: documentHeaders },
        { status: 304, description: "The keys have not changed", headers: documentHeaders },
      ],
    },
    {
      ...health,
      method: "get",
      id: "getHealth",
      successes: [
        {
          status: 200,
          schema: "Healthy",
          description: "The service is healthy",
          example: { status: "healthy", ...healthExample, database: "connected" },
        },
        {
          status: 503,
          schema: "Unhealthy",
          description: "The service is stopping, or its database does not answer",
          example: {
            status: "unhealthy",
            ...healthExample,
            database: "disconnected",
            error: "The database does not answer",
          },
        },
      ],
    },
    {
      ...health,
      method: "head",
      id: "headHealth",
      successes: [
        { status: 200, description: "The service is healthy" },
        { status: 503, description: "The service is stopping, or its database does not answer" },
      ],
    },
    {
      ...document,
      method: "get",
      id: "getOpenApi",
      successes: [
        { status: 200, schema: "OpenApi", description: "The document", headers: documentHeaders },
        { status: 304, description: "`If-None-Match` names the document's tag", headers: documentHeaders },
      ],
    },
    {
      ...document,
      method: "head",
      id: "headOpenApi",
      successes: [
        { status: 200, description: "The document exists", headers: documentHeaders },
        { status: 304, description: "`If-None-Match` names the document's tag", headers: documentHeaders },
      ],
    },
  ];
}
