import type { Month } from "../calendar.ts";
import type { UsageByDay } from "./report_usage.ts";

/** Renders the use of a key's license by day as JSON, for `--json` of the command and for the API. */
export function renderUsageByDay(
  key: { readonly id: string; readonly licenseId: string; readonly monthlyLimit: number | null },
  month: Month,
  { used, imported, days }: UsageByDay,
) {
  return {
    id: key.id,
    license_id: key.licenseId,
    month: month.firstDay.slice(0, 7),
    monthly_limit: key.monthlyLimit,
    used,
    imported,
    days,
  };
}
