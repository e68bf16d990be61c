/** The handler of health, for load balancers and scripts of operators. It needs no key and has no limit. */
import { toTimestamp } from "../base/calendar.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";

export const API_VERSION = "v1";

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
