/** `claviger usage …`: the use of each license in a month, for accounting, and the use of all licenses by day. */
import { type Command, Option } from "commander";
import { DAY, type Month } from "../../calendar.ts";
import { renderCount } from "../../render_count.ts";
import {
  completePeriod,
  listUsage,
  MAX_USAGE_DAYS,
  readUsageDays,
  renderUsage,
  renderUsageCsv,
  renderUsageDays,
  toShown,
  USAGE_CSV_HEADING,
  USAGE_NAMES,
  type UsageName,
} from "../../usage/mod.ts";
import type { Invocation } from "../invocation.ts";
import { type JsonOptions, monthOption, parsedOption, withJsonOptions, withWords } from "../options.ts";
import { printJson, printNote, printTable } from "../print.ts";
import { CommandRefused, withDatabase } from "../run.ts";
import { withBars } from "../text_bars.ts";

interface ExportOptions extends JsonOptions {
  readonly month: Month;
  readonly csv: boolean;
  readonly bom: boolean;
}

interface DailyOptions extends JsonOptions {
  readonly from?: string;
  readonly to?: string;
  readonly by?: UsageName;
}

export function addUsageCommands(program: Command, invocation: Invocation): void {
  const usage = program.command("usage").description("show what licenses have used");

  withJsonOptions(usage.command("export"))
    .description("list what each license used in a month; test keys are marked")
    .requiredOption("--month <month>", "the month, such as 2026-11", monthOption)
    .addOption(
      new Option("--csv", "print comma-separated values (RFC 4180)").default(false).conflicts("json"),
    )
    .addOption(
      new Option("--bom", "print --csv with the byte order mark by which Excel recognises UTF-8")
        .default(false)
        .implies({ csv: true })
        .conflicts("json"),
    )
    .action((options: ExportOptions) =>
      withDatabase(invocation, options, async ({ database }) => {
        const rows = (await listUsage(database, options.month)).map((row) => renderUsage(row, options.month));
        if (options.json) return printJson(invocation, rows);
        // Only for Excel: other programs would read the mark as a part of the first heading.
        const mark = options.bom ? "\ufeff" : "";
        if (options.csv) invocation.out(`${mark}${USAGE_CSV_HEADING}${renderUsageCsv(rows)}`);
        else printTable(invocation, rows.map(toShown));
      }),
    );

  withJsonOptions(usage.command("daily"))
    .description(
      "show what all licenses together used each day; the service adds the use of today once a minute",
    )
    .option(
      "--from <day>",
      "the first day, such as 2026-11-20; by default the thirty days until --to",
      parsedOption(DAY),
    )
    .option("--to <day>", "the last day; by default today, UTC", parsedOption(DAY))
    .addOption(withWords(new Option("--by <what>", "divide the use of a day"), USAGE_NAMES))
    .action((options: DailyOptions) =>
      withDatabase(invocation, options, async ({ database }) => {
        const period = completePeriod(options, invocation.clock.now());
        if (period === undefined) throw new CommandRefused(TOO_LONG);
        const use = renderUsageDays(period, await readUsageDays(database, period));
        if (options.json) return printJson(invocation, use);
        showDays(invocation, use);
      }),
    );
}

const TOO_LONG = `Cannot show use by day: --from and --to must be at most ${MAX_USAGE_DAYS} days apart`;

function showDays(invocation: Invocation, use: ReturnType<typeof renderUsageDays>): void {
  const { columns } = invocation;
  printTable(invocation, withBars(use.data, { of: "used", columns }));
  for (const { month, used, ...rest } of use.imported) {
    const [name = ""] = Object.values(rest);
    printNote(invocation, `Imported in ${month}, without a day${name && `, ${name}`}: ${renderCount(used)}`);
  }
  printNote(
    invocation,
    use.as_of === null
      ? "Nothing is counted yet: the service begins some seconds after its start"
      : `Counted until ${use.as_of}; the days before ${use.exact_until} are exact`,
  );
  if (use.filled_from !== null)
    printNote(invocation, `The months before ${use.filled_from} are still being counted`);
}
