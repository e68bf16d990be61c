/** The operations that tell of the service itself, to anybody: its health, and the document. */
import { API_VERSION } from "../health_routes.ts";
import type { HeaderName } from "./headers.ts";
import type { Operation } from "./operation.ts";

export function ownOperations(): Operation[] {
  const health = {
    path: "/api/health",
    summary: "Ask whether the service is well",
    description: "Healthy as long as keys can be validated.",
    codes: [],
  } as const satisfies Partial<Operation>;
  const document = {
    path: "/openapi.json",
    summary: "Get this document",
    description: "It changes with the version of the service and with its settings.",
    codes: [],
  } as const satisfies Partial<Operation>;
  const documentHeaders: readonly HeaderName[] = ["ETag"];
  const healthExample = { timestamp: "2026-11-20T10:00:00Z", version: API_VERSION };

  return [
    {
      ...health,
      method: "get",
      id: "getHealth",
      successes: [
        {
          status: 200,
          schema: "Healthy",
          description: "It is",
          example: { status: "healthy", ...healthExample, database: "connected" },
        },
        {
          status: 503,
          schema: "Unhealthy",
          description: "It is stopping, or its database does not answer",
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
        { status: 200, description: "It is" },
        { status: 503, description: "It is stopping, or its database does not answer" },
      ],
    },
    {
      ...document,
      method: "get",
      id: "getOpenApi",
      successes: [
        { status: 200, schema: "OpenApi", description: "The document", headers: documentHeaders },
        { status: 304, description: "`If-None-Match` names its tag", headers: documentHeaders },
      ],
    },
    {
      ...document,
      method: "head",
      id: "headOpenApi",
      successes: [
        { status: 200, description: "There is one", headers: documentHeaders },
        { status: 304, description: "`If-None-Match` names its tag", headers: documentHeaders },
      ],
    },
  ];
}
