/** Renders the use of a month for accounting, as JSON and as CSV: commands and the API show the same rows. */
import type { Month } from "../calendar.ts";
import type { MonthOfUse } from "./report_usage.ts";

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

/** Renders the use of a license in a month as JSON. */
export function renderUsage(use: MonthOfUse, month: Month) {
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

export type UsageRow = ReturnType<typeof renderUsage>;

/** Returns the row for people: without null. */
export function toShown(row: UsageRow) {
  return { ...row, monthly_limit: row.monthly_limit ?? "unlimited", external_id: row.external_id ?? "" };
}

/** The first line of the CSV. Source: RFC 4180. */
export const USAGE_CSV_HEADING = `${COLUMNS.join(",")}\r\n`;

/** Renders rows as lines of the CSV. */
export function renderUsageCsv(rows: readonly UsageRow[]): string {
  return rows
    .map(toShown)
    .map((row) => `${COLUMNS.map((name) => toCell(row[name])).join(",")}\r\n`)
    .join("");
}

function toCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  // An apostrophe makes text of a cell that a spreadsheet would take for a formula. Some spreadsheets skip blanks and
  // controls before the sign, and accept its wide and small forms. U+2212 is the minus sign of mathematics.
  const text = /^[\s\p{C}=+\-@\u2212]/u.test(value.normalize("NFKC")) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
