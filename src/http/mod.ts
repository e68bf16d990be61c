/** The HTTP door: the contract's endpoints over the rooms. `app.ts` is the page to read first. */
export { IDLE_TIMEOUT_SECONDS } from "./answer_headers.ts";
export { createApp } from "./app.ts";
export type { AppOptions } from "./handler.ts";
export { listenForMetrics } from "./metrics/listen_for_metrics.ts";
export { createMetricsPage, METRICS_PATH } from "./metrics/metrics_page.ts";
export { createRequestMetrics } from "./metrics/request_metrics.ts";
