/** The health of the service, for operators. */
import { page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { healthPage } from "./health.tsx";
import { latencyPage } from "./latency.tsx";
import { findLatencyRoute } from "./latency_routes.ts";
import { getStatus } from "./status_routes.ts";

export const health: Thing = {
  label: "Health",
  pages: [page("/health", "status:read", healthPage), page("/health/latency", "status:read", latencyPage)],
  api: [getStatus, findLatencyRoute],
};
