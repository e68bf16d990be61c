/** `claviger activity`: counts the answered requests by endpoint, code or reason. */
import { type Command, Option } from "commander";
import {
  ACTIVITY_NAMES,
  ACTIVITY_STEPS,
  type ActivityName,
  type ActivityStep,
  completeQuery,
  findActivity,
  renderActivity,
} from "../../activity/mod.ts";
import type { Invocation } from "../invocation.ts";
import { type JsonOptions, timestampOption, withJsonOptions, withWords } from "../options.ts";
import { printJson, printTable } from "../print.ts";
import { orRefuse, withDatabase } from "../run.ts";
import { withBars } from "../text_bars.ts";

interface ActivityOptions extends JsonOptions {
  readonly from?: Date;
  readonly to?: Date;
  readonly by: ActivityName;
  readonly step: ActivityStep;
}

export function addActivityCommand(program: Command, invocation: Invocation): void {
  withJsonOptions(program.command("activity"))
    .description("count the answered requests of clients; the service adds its counts once a minute")
    .addOption(
      withWords(
        new Option("--by <what>", "divide the counts; by reason, only refusals with a reason are counted"),
        ACTIVITY_NAMES,
      ).default("code"),
    )
    .addOption(
      withWords(
        new Option("--step <step>", "add up the counts of each hour, day or month"),
        ACTIVITY_STEPS,
      ).default("hour"),
    )
    .option(
      "--from <time>",
      "a time in the first hour, day or month; by default 24 hours, 30 days or 13 months are shown",
      timestampOption,
    )
    .option(
      "--to <time>",
      "leave out hours (or days) that begin at this time or later; by default now",
      timestampOption,
    )
    .action((options: ActivityOptions) =>
      withDatabase(invocation, options, async ({ database }) => {
        const query = completeQuery(options, invocation.clock.now());
        const rendered = renderActivity(query, orRefuse(await findActivity(database, query)));
        if (options.json) return printJson(invocation, rendered);
        const { columns } = invocation;
        printTable(invocation, withBars(rendered.data, { of: "http_requests", columns }));
      }),
    );
}
