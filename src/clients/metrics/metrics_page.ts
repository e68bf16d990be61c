/** `GET /metrics`: the metrics of the service, for Prometheus, on an address of its own. */
import { isLoopback } from "../../base/listener_url.ts";
import type { Answer } from "../../base/platform/mod.ts";
import { pathOf } from "../../wire/mod.ts";
import { collectMetrics, type MetricsSources } from "./collect_metrics.ts";
import { EXPOSITION_TYPE, renderExposition } from "./exposition.ts";

const METRICS_PATH = "/metrics";

/**
 * Creates the function that answers `GET` and `HEAD` of `/metrics`; other paths get 404, other methods 405. At a loopback
 * `host` any other `Host` gets 421: a website whose name resolves to 127.0.0.1 must not read the metrics. At any other
 * address Prometheus may use every name.
 */
export function createMetricsPage({ host, ...sources }: MetricsSources & { readonly host: string }): Answer {
  const isOwn = (name: string) => isLoopback(URL.parse(`http://${name}`)?.hostname ?? "");
  return async (request) => {
    if (isLoopback(host) && !isOwn(request.headers.get("host") ?? "")) {
      return plain(421, "This listener answers only at 127.0.0.1, localhost or [::1]\n");
    }
    if (pathOf(request) !== METRICS_PATH) return plain(404, `The only path here is ${METRICS_PATH}\n`);
    if (request.method !== "GET" && request.method !== "HEAD") {
      return plain(405, "Only GET and HEAD are allowed here\n", { Allow: "GET, HEAD" });
    }
    const text = renderExposition(await collectMetrics(sources));
    return new Response(text, { headers: { "Content-Type": EXPOSITION_TYPE, "Cache-Control": "no-store" } });
  };
}

function plain(status: number, text: string, headers: Record<string, string> = {}): Response {
  return new Response(text, { status, headers: { "Content-Type": "text/plain; charset=utf-8", ...headers } });
}
