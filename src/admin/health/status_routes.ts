/** The state of the service, for monitoring. */
import * as v from "valibot";
import { count, described, identifier, oneOfThese, timestamp } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { VERSION } from "../../base/version.ts";
import { listProcesses } from "../../database/processes/mod.ts";
import { completeQuery, findEndpointHours, findHours } from "../../usage/activity/mod.ts";
import { SLOW_RULE } from "../../usage/latency/mod.ts";
import { FAILURE_CODES } from "../../wire/mod.ts";
import { findKeysOfHours } from "../activity/refused_keys.tsx";
import { route, titled } from "../frame/api/route.ts";
import { findingsOf, findSlow } from "./slow.ts";

const FINDING = titled("Finding", {
  name: v.string(),
  state: oneOfThese(["ok", "warn", "fail", "skip"]),
  message: v.string(),
  remedy: v.optional(v.string()),
});

const HOUR_OF_ENDPOINT = titled("EndpointHour", {
  at: timestamp(),
  endpoint: v.string(),
  http_requests: count(1),
  refused: count(),
  failed: described(count(), "With a status of 500 or more"),
});

const UNUSUAL_HOUR = titled("UnusualHour", {
  at: timestamp(),
  code: v.string(),
  http_requests: count(),
  kind: oneOfThese(["high", "low"]),
  lowest: described(count(), "Of the same hour of the 28 days before"),
  highest: count(),
  most_refused: described(
    v.array(v.object({ id: identifier("key"), refused: count(1) })),
    "At most three keys with at least a tenth of these refusals each; only with `RATE_LIMIT_EXCEEDED` and `high`",
  ),
});

const MS = described(v.nullable(v.number()), "Of its requests since its start; null before the first");
/** Without its address: to watch a process, nobody needs to know where it listens. */
const PROCESS = titled("Process", {
  host: v.string(),
  version: v.string(),
  started_at: timestamp(),
  is_lost: v.boolean(),
  p50_ms: MS,
  p95_ms: MS,
});

export const getStatus = route("GET /status", "status:read", {
  id: "getStatus",
  summary: "Tell what works, what will soon fail, and what is wrong",
  description:
    "A short form of the command `doctor`: the disk, the database server and the schema. The answer is at most 60 " +
    "seconds old, and makes no request to other hosts. A finding that is `warn` or `fail` has a remedy. Each endpoint " +
    `that is slow has a finding \`latency\` of its own. ${SLOW_RULE}.`,
  success: {
    schema: v.object({
      ok: described(v.boolean(), "False if a finding is `fail`"),
      version: v.string(),
      checked_at: timestamp(),
      findings: v.array(FINDING),
      hours: described(v.array(HOUR_OF_ENDPOINT), "The last 24 hours, by endpoint"),
      unusual_hours: v.array(UNUSUAL_HOUR),
      processes: v.array(PROCESS),
    }),
    description: "The findings",
  },
  async run({ database, examination }, { now, restriction }) {
    const { at, findings } = examination();
    const day = completeQuery({}, now);
    const [examined, hours, { unusual }, processes, slow] = await Promise.all([
      findings,
      findEndpointHours(database, day, FAILURE_CODES),
      findHours(database, day, now),
      listProcesses(database),
      findSlow(database, now),
    ]);
    const found = [...examined, ...findingsOf(slow)];
    const keys = await findKeysOfHours(database, unusual, { now, restriction });
    return {
      ok: found.every(({ state }) => state !== "fail"),
      version: VERSION,
      checked_at: toTimestamp(at),
      findings: found,
      hours: hours.map(({ at, requests, ...row }) => ({
        at: toTimestamp(at),
        http_requests: requests,
        ...row,
      })),
      unusual_hours: unusual.map((hour) => {
        const { at, name, count, ...row } = hour;
        const refused = (keys.get(hour) ?? []).map(({ key, refused }) => ({ id: key.id, refused }));
        return { ...row, at: toTimestamp(at), code: name, http_requests: count, most_refused: refused };
      }),
      processes: processes.map(({ host, version, startedAt, isLost, p50Ms, p95Ms }) => ({
        host,
        version,
        started_at: toTimestamp(startedAt),
        is_lost: isLost,
        p50_ms: p50Ms,
        p95_ms: p95Ms,
      })),
    };
  },
});
