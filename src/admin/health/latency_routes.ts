/** How long the requests of each endpoint took, for monitoring. */
import * as v from "valibot";
import { count, described, oneOfThese, timestamp } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { isRefusal } from "../../base/refusal.ts";
import { COUNTS_RULE } from "../../database/mod.ts";
import {
  completeLatencyQuery,
  findLatency,
  LATENCY_CONDITIONS,
  LATENCY_KEPT_HOURS,
  type Measured,
  slowerFactorOf,
  WORST_FIRST,
} from "../../usage/latency/mod.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { route, titled } from "../frame/api/route.ts";
import { findMarks, MARK_KINDS, MOST_MARKS, UNKNOWN_MARKS } from "./marks.ts";

const ms = (share: string) =>
  described(v.nullable(v.number()), `The time within which ${share} of the requests ended; null without one`);

const MEASURED = {
  http_requests: count(),
  refused: described(count(), "Answered with an error that is no failure of the service"),
  failed: described(count(), "With a status of 500 or more"),
  p50_ms: ms("half"),
  p95_ms: ms("95 %"),
  p99_ms: ms("99 %"),
};

const STEP = titled("LatencyStep", {
  at: described(timestamp(), "The beginning of the five minutes"),
  ...MEASURED,
});
const TIME = titled("LatencyTime", MEASURED);
const ENDPOINT = titled("EndpointLatency", {
  endpoint: v.string(),
  slower_factor: described(
    v.number(),
    "The p95 of the last hour divided by that of the 24 hours before; 1 if it is not slower",
  ),
  last_hour: TIME,
  day_before: TIME,
  steps: described(v.array(STEP), "The earliest first; five minutes without a request have no row"),
});
const MARK = titled("HealthMark", {
  at: timestamp(),
  kind: oneOfThese(MARK_KINDS),
  says: v.string(),
});

export const findLatencyRoute = route("GET /health/latency", "status:read", {
  id: "findLatency",
  summary: "Tell how long the requests of each endpoint took, by five minutes",
  description:
    "Over all processes, from the same buckets as the metric `claviger_http_request_duration_seconds`, with the " +
    `interpolation of Prometheus. ${COUNTS_RULE} Counts are kept ${LATENCY_KEPT_HOURS} hours. ` +
    `${WORST_FIRST}. \`last_hour\` is the last hour of the span, and \`day_before\` the 24 hours before it. The marks say what happened to the installation. ${UNKNOWN_MARKS}.`,
  query: v.strictObject(conditionFields(LATENCY_CONDITIONS)),
  success: {
    schema: v.object({
      from: timestamp(),
      to: timestamp(),
      endpoints: described(v.array(ENDPOINT), "The worst first"),
      marks: described(v.array(MARK), `The earliest first; of more than ${MOST_MARKS} only the latest`),
    }),
    description: "The latency of each endpoint that had a request",
  },
  async run({ database }, { query, now }) {
    const span = completeLatencyQuery(query, now);
    const endpoints = await findLatency(database, span);
    if (isRefusal(endpoints)) return endpoints;
    const marks = await findMarks(database, span);
    return {
      from: toTimestamp(span.from),
      to: toTimestamp(span.to),
      endpoints: endpoints.map(({ endpoint, lastHour, dayBefore, steps }) => ({
        endpoint,
        slower_factor: slowerFactorOf({ lastHour, dayBefore }),
        last_hour: renderMeasured(lastHour),
        day_before: renderMeasured(dayBefore),
        steps: steps.map((step) => ({ at: toTimestamp(step.at), ...renderMeasured(step) })),
      })),
      marks: marks.map((mark) => ({ ...mark, at: toTimestamp(mark.at) })),
    };
  },
});

function renderMeasured({ requests, refused, failed, p50Ms, p95Ms, p99Ms }: Measured) {
  return { http_requests: requests, refused, failed, p50_ms: p50Ms, p95_ms: p95Ms, p99_ms: p99Ms };
}
