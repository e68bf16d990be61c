/**
 * The license and quota object, as JSON text.
 *
 * For validate it is the same until the license's count or the month changes, so it is kept on the key's
 * record with what it was made from. Then only the counts are put anew between what stands before and after.
 */
import { type Month, toTimestamp } from "../calendar.ts";
import { toId } from "../ids.ts";
import { type KeyRecord, usedIn } from "../keys/mod.ts";
import { featuresOf } from "../licensing/mod.ts";

/** Renders the answer of validate, and notes on the record whether nothing is left of the month's allowance. */
export function renderValidation(record: KeyRecord, month: Month): string {
  if (record.answeredUsage === record.usage && record.answeredMonth === month) return record.answer;
  const { answer, account } = record;
  const begin =
    answer === ""
      ? renderBegin(record, { user_id: toId("usr", record.accountUuid), ...account })
      : answer.slice(0, record.quotaAt);
  record.answer = begin + renderEnd(record, month);
  record.account = undefined;
  record.answeredUsage = record.usage;
  record.answeredMonth = month;
  record.quotaAt = begin.length;
  record.isUsedUp = isUsedUp(record, month);
  return record.answer;
}

/** Renders the answer of refresh: the same without the account. A client asks for it now and then. */
export function renderRefresh(record: KeyRecord, month: Month): string {
  return renderBegin(record, {}) + renderEnd(record, month);
}

/** Everything before the quota. */
function renderBegin({ tier }: KeyRecord, account: Readonly<Record<string, string>>): string {
  const begin = JSON.stringify({ valid: true, ...account, license_type: tier, features: featuresOf(tier) });
  return `${begin.slice(0, -1)},"quota":`;
}

function renderEnd(record: KeyRecord, month: Month): string {
  const used = usedIn(record, month.index);
  const counts = `"monthly_limit":${record.monthlyLimit},"used":${used},"remaining":${remainingOf(record, used)}`;
  const expiresAt = toTimestamp(new Date(record.expiresAtMs));
  return `{${counts},"resets_at":"${month.resetsAt}"},"expires_at":"${expiresAt}"}`;
}

/** What is left of the allowance: null where it is unlimited, 0 where the limit was lowered below the use. */
export function remainingOf(record: KeyRecord, used: number): number | null {
  return record.monthlyLimit === null ? null : Math.max(0, record.monthlyLimit - used);
}

/** True when nothing is left of the month's allowance. */
export function isUsedUp(record: KeyRecord, month: Month): boolean {
  return remainingOf(record, usedIn(record, month.index)) === 0;
}
