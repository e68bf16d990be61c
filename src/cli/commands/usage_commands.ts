/** `claviger usage export`: lists the use of each license in a month, for accounting. */
import { type Command, Option } from "commander";
import type { Month } from "../../calendar.ts";
import { listUsage, type MonthOfUse } from "../../usage/mod.ts";
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
        const rows = (await listUsage(database, options.month)).map((row) => toRow(row, options.month));
        if (options.json) return printJson(surroundings, rows);
        const shown = rows.map((row) => ({
          ...row,
          monthly_limit: row.monthly_limit ?? "unlimited",
          external_id: row.external_id ?? "",
        }));
        // Only for Excel: other programs would read the mark as a part of the first heading.
        if (options.csv) surroundings.out(`${options.bom ? "\ufeff" : ""}${renderCsv(shown)}`);
        else printTable(surroundings, shown);
      }),
    );
}

const COLUMNS = [
  "month",
  "license_id",
  "user_id",
  "email",
  "organization",
  "tier",
  "mode",
  "monthly_limit",
  "used",
  "external_id",
] as const;

type Row = Readonly<Record<(typeof COLUMNS)[number], string | number>>;

function toRow(use: MonthOfUse, month: Month) {
  return {
    month: month.firstDay.slice(0, 7),
    license_id: use.licenseId,
    user_id: use.userId,
    email: use.email,
    organization: use.organization,
    tier: use.tier,
    mode: use.mode,
    monthly_limit: use.monthlyLimit,
    used: use.used,
    external_id: use.externalId,
  };
}

/** Renders rows with a heading. Source: RFC 4180. */
function renderCsv(rows: readonly Row[]): string {
  const lines = [COLUMNS.join(","), ...rows.map((row) => COLUMNS.map((name) => toCell(row[name])).join(","))];
  return `${lines.join("\r\n")}\r\n`;
}

function toCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  // An apostrophe makes text of a cell that a spreadsheet would take for a formula. Some spreadsheets skip blanks and
  // controls before the sign, and accept its wide and small forms. U+2212 is the minus sign of mathematics.
  const text = /^[\s\p{C}=+\-@\u2212]/u.test(value.normalize("NFKC")) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
