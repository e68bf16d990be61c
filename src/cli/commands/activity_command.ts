/** `claviger activity`: counts the answered requests by endpoint, code or reason. */

import {
  ACTIVITY_CONDITIONS,
  completeQuery,
  findActivity,
  renderActivity,
} from "../../usage/activity/mod.ts";
import { databaseCommand } from "../command.ts";
import { conditionOptions } from "../list_options.ts";
import { orRefuse } from "../run.ts";
import { withBars } from "../text_bars.ts";

export const activity = databaseCommand({
  name: "activity",
  description: "count the answered requests of clients; the service adds its counts once a minute",
  options: conditionOptions(ACTIVITY_CONDITIONS),
  async run(values, { invocation: { clock, columns }, database, print }) {
    const query = completeQuery(values, clock.now());
    const rendered = renderActivity(query, orRefuse(await findActivity(database, query)));
    print.table(withBars(rendered.data, { of: "http_requests", columns }), rendered);
  },
});
