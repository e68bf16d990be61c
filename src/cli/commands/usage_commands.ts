/** `claviger usage export`: lists the use of each license in a month, for accounting. */
import { type Command, Option } from "commander";
import type { Month } from "../../calendar.ts";
import { listUsage, renderUsage, renderUsageCsv, toShown, USAGE_CSV_HEADING } from "../../usage/mod.ts";
import { type InstallationFlags, monthOption, withInstallationFlags, withJson } from "../options.ts";
import { printJson, printTable } from "../print.ts";
import { readSettings, withDatabase } from "../run.ts";
import type { Surroundings } from "../surroundings.ts";

interface ExportOptions extends InstallationFlags {
  readonly month: Month;
  readonly csv: boolean;
  readonly bom: boolean;
  readonly json: boolean;
}

export function addUsageCommands(program: Command, surroundings: Surroundings): void {
  const usage = program.command("usage").description("show what licenses have used");

  withInstallationFlags(withJson(usage.command("export")))
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
      withDatabase(surroundings, readSettings(surroundings, options), async ({ database }) => {
        const rows = (await listUsage(database, options.month)).map((row) => renderUsage(row, options.month));
        if (options.json) return printJson(surroundings, rows);
        // Only for Excel: other programs would read the mark as a part of the first heading.
        const mark = options.bom ? "\ufeff" : "";
        if (options.csv) surroundings.out(`${mark}${USAGE_CSV_HEADING}${renderUsageCsv(rows)}`);
        else printTable(surroundings, rows.map(toShown));
      }),
    );
}
