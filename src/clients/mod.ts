/** The listener for clients: the endpoints of the contract. Read `app.ts` first. */
export { IDLE_TIMEOUT_SECONDS } from "../wire/mod.ts";
export { createApp } from "./app.ts";
export { createMetricsPage } from "./metrics/metrics_page.ts";
export { createRequestMetrics } from "./metrics/request_metrics.ts";
