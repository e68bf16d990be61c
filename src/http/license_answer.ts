/**
 * The license and quota object, as JSON text.
 *
 * It is the same until the license's count or the month changes, so it is kept on the key's record with what
 * it was made from. Then only the counts are put anew between what stands before and after.
 */
import { type Month, toTimestamp } from "../calendar.ts";
import { type KeyRecord, type RenderedLicense, usedIn } from "../keys/mod.ts";
import { featuresOf } from "../licensing/mod.ts";

/** Renders the answer of validate (with the account) or refresh (without). */
export function renderLicense(
  record: KeyRecord,
  month: Month,
  { withAccount }: { readonly withAccount: boolean },
): RenderedLicense {
  const last = withAccount ? record.validated : record.refreshed;
  if (last !== undefined && last.usage === record.usage && last.month === month) return last;
  const begin = last?.text.slice(0, last.quotaAt) ?? renderBegin(record, withAccount);
  const text = `${begin}${renderQuota(record, month)},"expires_at":"${toTimestamp(new Date(record.expiresAtMs))}"}`;
  const { usage } = record;
  const rendered = { text, quotaAt: begin.length, usage, month, isUsedUp: isUsedUp(record, month) };
  if (withAccount) record.validated = rendered;
  else record.refreshed = rendered;
  return rendered;
}

/** Everything before the quota. */
function renderBegin(record: KeyRecord, withAccount: boolean): string {
  const account = {
    user_id: record.userId,
    email: record.email,
    name: record.name,
    organization: record.organization,
  };
  const license = { license_type: record.tier, features: featuresOf(record.tier) };
  const begin = JSON.stringify({ valid: true, ...(withAccount && account), ...license });
  return `${begin.slice(0, -1)},"quota":`;
}

function renderQuota(record: KeyRecord, month: Month): string {
  const used = usedIn(record, month.index);
  const counts = `"monthly_limit":${record.monthlyLimit},"used":${used},"remaining":${remainingOf(record, used)}`;
  return `{${counts},"resets_at":"${month.resetsAt}"}`;
}

/** What is left of the allowance: null where it is unlimited, 0 where the limit was lowered below the use. */
export function remainingOf(record: KeyRecord, used: number): number | null {
  return record.monthlyLimit === null ? null : Math.max(0, record.monthlyLimit - used);
}

/** True when nothing is left of the month's allowance. */
export function isUsedUp(record: KeyRecord, month: Month): boolean {
  return remainingOf(record, usedIn(record, month.index)) === 0;
}
