/** `claviger usage …`: the use of each license in a month, for accounting, and the use of all licenses by day. `usage import` has a file of its own. */
import { MONTH } from "../../base/calendar.ts";
import { renderCount } from "../../base/render_count.ts";
import {
  completePeriod,
  type MonthOfUse,
  MUST_BE_NEAR,
  readUsageCsv,
  readUsageDays,
  renderUsage,
  renderUsageDays,
  toUsageCells,
  USAGE_DAYS_CONDITIONS,
  usagePages,
} from "../../usage/mod.ts";
import { databaseCommand, group } from "../command.ts";
import { conditionOptions, whileRead } from "../list_options.ts";
import { flag, required } from "../parameter.ts";
import type { Printer } from "../print.ts";
import { CommandRefused } from "../run.ts";
import { withBars } from "../text_bars.ts";
import { importing } from "./usage_import_command.ts";

const exporting = databaseCommand({
  name: "export",
  description: "list what each license used in a month; test keys are marked",
  options: {
    month: required("the month, such as 2026-11", MONTH),
    csv: flag("print comma-separated values (RFC 4180)", { conflicts: ["json"] }),
    bom: flag("print --csv with the byte order mark by which Excel recognises UTF-8", {
      implies: { csv: true },
      conflicts: ["json"],
    }),
  },
  async run({ month, csv, bom }, call) {
    const { invocation, database, print } = call;
    if (csv) {
      // Only for Excel: other programs would read the mark as a part of the first heading.
      if (bom) invocation.out("\ufeff");
      for await (const part of whileRead(readUsageCsv(database, month), call)) invocation.out(part);
      return;
    }
    const toJson = (use: MonthOfUse) => renderUsage(use, month);
    const toCells = (use: MonthOfUse) => toUsageCells(toJson(use));
    await print.rows(whileRead(usagePages(database, month), call), { toCells, toJson });
  },
});

const TOO_LONG = `Cannot show use by day: --from and --to ${MUST_BE_NEAR}`;

const daily = databaseCommand({
  name: "daily",
  description:
    "show what all licenses together used each day; the service adds the use of today once a minute",
  options: conditionOptions(USAGE_DAYS_CONDITIONS),
  async run(values, { invocation: { clock, columns }, database, print }) {
    const period = completePeriod(values, clock.now());
    if (period === undefined) throw new CommandRefused(TOO_LONG);
    const use = renderUsageDays(period, await readUsageDays(database, period));
    print.table(withBars(use.data, { of: "used", columns }), use);
    noteCoverage(print, use);
  },
});

export const usage = group(
  "usage",
  "show what licenses have used, and import the reports of machines without a network",
  [exporting, daily, importing],
);

/** Says what the table cannot show: imported use, and how far the days are counted. */
function noteCoverage(print: Printer, use: ReturnType<typeof renderUsageDays>): void {
  for (const { month, used, ...rest } of use.imported) {
    const [name = ""] = Object.values(rest);
    print.note(`Imported in ${month}, without a day${name && `, ${name}`}: ${renderCount(used)}`);
  }
  print.note(
    use.as_of === null
      ? "Nothing is counted yet: the service begins some seconds after its start"
      : `Counted until ${use.as_of}; the days before ${use.exact_until} are exact`,
  );
  if (use.filled_from !== null) print.note(`The months before ${use.filled_from} are still being counted`);
}
