import type { UseOfMonth } from "./report_usage.ts";

/** Renders the use of an account by month as JSON, for `--json` of the command and for the API. */
export function renderUsageByMonth(accountId: string, months: readonly UseOfMonth[]) {
  return { id: accountId, months };
}
