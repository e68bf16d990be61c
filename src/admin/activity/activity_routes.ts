/** Counts the requests of clients by how they were answered. */
import * as v from "valibot";
import { count, described, timestamp } from "../../base/answer_fields.ts";
import { isRefusal } from "../../base/refusal.ts";
import { COUNTS_RULE } from "../../database/mod.ts";
import {
  ACTIVITY_CONDITIONS,
  ACTIVITY_KEPT_DAYS,
  ACTIVITY_NAMES,
  ACTIVITY_STEPS,
  completeQuery,
  findActivity,
  renderActivity,
} from "../../usage/activity/mod.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { route, titled } from "../frame/api/route.ts";

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
  description: `${COUNTS_RULE} Counts are kept ${ACTIVITY_KEPT_DAYS} days. A count of zero has no row.`,
  query: v.strictObject(conditionFields(ACTIVITY_CONDITIONS)),
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
