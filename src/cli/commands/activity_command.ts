/** `claviger activity`: counts the answered requests by endpoint, code or reason. */

import { TIMESTAMP } from "../../base/calendar.ts";
import {
  ACTIVITY_NAMES,
  ACTIVITY_STEPS,
  completeQuery,
  findActivity,
  renderActivity,
} from "../../usage/activity/mod.ts";
import { databaseCommand } from "../command.ts";
import { option } from "../parameter.ts";
import { orRefuse } from "../run.ts";
import { withBars } from "../text_bars.ts";

export const activity = databaseCommand({
  name: "activity",
  description: "count the answered requests of clients; the service adds its counts once a minute",
  options: {
    by: option("divide the counts; by reason, only refusals with a reason are counted", ACTIVITY_NAMES, {
      as: "what",
      default: "code",
    }),
    step: option("add up the counts of each hour, day or month", ACTIVITY_STEPS, { default: "hour" }),
    from: option(
      "a time in the first hour, day or month; by default 24 hours, 30 days or 13 months are shown",
      TIMESTAMP,
      { as: "time" },
    ),
    to: option("leave out hours (or days) that begin at this time or later; by default now", TIMESTAMP, {
      as: "time",
    }),
  },
  async run(values, { invocation: { clock, columns }, database, print }) {
    const query = completeQuery(values, clock.now());
    const rendered = renderActivity(query, orRefuse(await findActivity(database, query)));
    print.table(withBars(rendered.data, { of: "http_requests", columns }), rendered);
  },
});
