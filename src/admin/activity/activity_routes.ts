/** Counts the requests of clients by how they were answered. */
import * as v from "valibot";
import { DAY_AS_BOUND, TIMESTAMP } from "../../base/calendar.ts";
import { isRefusal } from "../../base/refusal.ts";
import { inJsonSchema, parsedField, wordField } from "../../base/rule.ts";
import {
  ACTIVITY_KEPT_DAYS,
  ACTIVITY_NAMES,
  ACTIVITY_STEPS,
  completeQuery,
  findActivity,
  MAX_LOST_SECONDS,
  renderActivity,
} from "../../usage/activity/mod.ts";
import { count, described, timestamp } from "../../wire/mod.ts";
import { route, titled } from "../frame/api/route.ts";

/** The conditions that the API and the console have. */
export const ACTIVITY_CONDITIONS = {
  to: v.optional(
    parsedField(TIMESTAMP, {
      description: `The end, which is not included; ${DAY_AS_BOUND}. By default now`,
    }),
  ),
  by: v.optional(
    v.pipe(
      wordField(ACTIVITY_NAMES),
      inJsonSchema({
        default: "code",
        description: "By `reason`, only refusals with a reason are counted",
      }),
    ),
  ),
  step: v.optional(v.pipe(wordField(ACTIVITY_STEPS), inJsonSchema({ default: "hour" }))),
} as const;

const ACTIVITY_ROW = titled("Activity", {
  at: described(timestamp(), "The beginning of the hour, day or month"),
  endpoint: v.optional(described(v.string(), "Only by endpoint")),
  code: v.optional(described(v.string(), "Only by code; `OK` for an answer without an error")),
  reason: v.optional(described(v.string(), "Only by reason: why a key was refused")),
  http_requests: count(1),
});

export const findActivityRoute = route("GET /activity", "status:read", {
  id: "findActivity",
  summary: "Count the requests of clients by endpoint, code or reason",
  description:
    "Every process adds its counts once a minute, and when it stops; after a crash the counts of its last " +
    `${MAX_LOST_SECONDS} seconds are missing. A write whose answer is lost may be counted twice. Counts are kept ` +
    `${ACTIVITY_KEPT_DAYS} days. A count of zero has no row.`,
  query: v.strictObject({
    from: v.optional(
      parsedField(TIMESTAMP, {
        description:
          "A time in the first hour, day or month of the answer. By default the answer has 24 hours, 30 days or 13 " +
          "months. It has at most 31 days by hour, and at most 400 days by day",
      }),
    ),
    ...ACTIVITY_CONDITIONS,
  }),
  success: {
    schema: v.object({
      from: timestamp(),
      to: timestamp(),
      by: v.picklist(ACTIVITY_NAMES),
      step: v.picklist(ACTIVITY_STEPS),
      data: v.array(ACTIVITY_ROW),
    }),
    description: "The counts, the earliest first",
  },
  async run({ database }, { query, now }) {
    const whole = completeQuery(query, now);
    const counts = await findActivity(database, whole);
    return isRefusal(counts) ? counts : renderActivity(whole, counts);
  },
});
