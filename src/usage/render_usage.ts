/** Renders use as JSON, and the use of a month for accounting also as CSV: commands and the API show the same. */
import * as v from "valibot";
import { count, fieldsOf, identifier, oneOfThese, renderFields } from "../base/answer_fields.ts";
import { type Month, toMonthText } from "../base/calendar.ts";
import { renderCsv } from "../base/text/mod.ts";
import type { Database } from "../database/mod.ts";
import { percentUsed, TIERS } from "../licensing/mod.ts";
import { type MonthOfUse, type UsageByDay, type UseOfMonth, usagePages } from "./report_usage.ts";

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
  "used_percent",
  "over",
] as const;

/** What `over` means, for every document. */
export const OVER = "The units that imported reports had beyond the limit; the quota does not count them";

const field = fieldsOf<{ readonly use: MonthOfUse; readonly month: Month }>();

/** The use of a license in a month. */
export const USAGE_FIELDS = {
  month: field(v.string(), ({ month }) => toMonthText(month)),
  license_id: field(identifier("lic"), ({ use }) => use.licenseId),
  user_id: field(identifier("usr"), ({ use }) => use.userId),
  email: field(v.string(), ({ use }) => use.email),
  organization: field(v.string(), ({ use }) => use.organization),
  tier: field(oneOfThese(TIERS), ({ use }) => use.tier),
  mode: field(v.string(), ({ use }) => use.mode, "`live`, `test`, or `live+test` for a license with both"),
  monthly_limit: field(v.nullable(count()), ({ use }) => use.monthlyLimit, "Null means unlimited"),
  used: field(count(), ({ use }) => use.used, "The units of the month"),
  external_id: field(
    v.nullable(v.string()),
    ({ use }) => use.externalId,
    "The operator's own name for the license",
  ),
  over: field(count(), ({ use }) => use.over, OVER),
} as const;

/** Renders the use of a license in a month as JSON. */
export function renderUsage(use: MonthOfUse, month: Month) {
  return renderFields(USAGE_FIELDS, { use, month });
}

type UsageRow = ReturnType<typeof renderUsage>;

/** Returns the row for people: without null. */
export function toUsageCells(row: UsageRow) {
  return { ...row, monthly_limit: row.monthly_limit ?? "unlimited", external_id: row.external_id ?? "" };
}

/** Reads the use of a month as CSV, in parts. */
export function readUsageCsv(database: Database, month: Month) {
  return renderCsv(usagePages(database, month), {
    columns: COLUMNS,
    toCells: (use) => ({
      ...toUsageCells(renderUsage(use, month)),
      used_percent: percentUsed(use.used, use.monthlyLimit),
    }),
  });
}

/** Renders the use of a key's license by day. */
export function renderUsageByDay(
  key: { readonly id: string; readonly licenseId: string; readonly monthlyLimit: number | null },
  month: Month,
  use: UsageByDay,
) {
  return {
    id: key.id,
    license_id: key.licenseId,
    month: toMonthText(month),
    monthly_limit: key.monthlyLimit,
    ...use,
  };
}

/** Renders the use of an account by month. */
export function renderUsageByMonth(accountId: string, months: readonly UseOfMonth[]) {
  return { id: accountId, months };
}
