/** Health, for load balancers and scripts of operators. It needs no key and has no limit. */
import { toTimestamp } from "../base/calendar.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { type Operations, withHead } from "./operation.ts";

export const API_VERSION = "v1";

const HEALTH_EXAMPLE = { timestamp: "2026-11-20T10:00:00Z", version: API_VERSION };

/** What the request for the health does. */
export const HEALTH: Operations = withHead(
  {
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
  },
  "The service is healthy",
);

/** Creates the handler that reports whether the service can answer. */
export function health({ directory, clock, isStopping, dataFault }: HandlerDeps): Handler {
  return () => {
    const isConnected = directory.isTrusted();
    const fault = dataFault?.();
    const error = isStopping() ? "The service is stopping" : (fault ?? "The database does not answer");
    const isHealthy = isConnected && !isStopping() && fault === undefined;
    return reply(
      {
        status: isHealthy ? "healthy" : "unhealthy",
        timestamp: toTimestamp(clock.now()),
        version: API_VERSION,
        database: isConnected ? "connected" : "disconnected",
        ...(isHealthy ? {} : { error }),
      },
      isHealthy ? 200 : 503,
    );
  };
}
