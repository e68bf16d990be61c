/**
 * Renders the license and quota object as JSON text.
 *
 * The text for validate is kept on the key's record, with the count and the month that it shows. When one of them
 * changes, only the end of the text, from the quota on, is rendered again.
 */
import { type Month, toTimestamp } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import { type KeyRecord, usedIn } from "../licensing/keys/mod.ts";

/** Renders the answer of validate, or returns the kept text if its count and month are still those of the record. */
export function renderValidate(record: KeyRecord, month: Month): string {
  if (record.answeredUsage !== record.usage || record.answeredMonth !== month) keepAnswer(record, month);
  return record.answer;
}

/** Keeps the answer on the record. */
function keepAnswer(record: KeyRecord, month: Month): void {
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
}

/** Returns the answer of refresh: the same without the account. It is not kept, because clients rarely ask for it. */
export function renderRefresh(record: KeyRecord, month: Month): string {
  return renderBegin(record, {}) + renderEnd(record, month);
}

/** Renders the text before the quota. */
function renderBegin({ tier, features }: KeyRecord, account: Readonly<Record<string, string>>): string {
  const begin = JSON.stringify({ valid: true, ...account, license_type: tier });
  return `${begin.slice(0, -1)},"features":${features},"quota":`;
}

function renderEnd(record: KeyRecord, month: Month): string {
  const used = usedIn(record, month.index);
  const counts = `"monthly_limit":${record.monthlyLimit},"used":${used},"remaining":${remainingOf(record, used)}`;
  const expiresAt = toTimestamp(new Date(record.expiresAtMs));
  const end = `"expires_at":"${expiresAt}"${renderUpdates(record)}${renderEntitlements(record)}`;
  return `{${counts},"resets_at":"${month.resetsAt}"},${end}}`;
}

/** Renders the end of updates; nothing for a license that has all of them. */
function renderUpdates({ updatesUntilMs }: KeyRecord): string {
  return Number.isFinite(updatesUntilMs) ? `,"updates_until":"${toTimestamp(new Date(updatesUntilMs))}"` : "";
}

/** Renders the values; nothing for a license without one. */
function renderEntitlements({ entitlements }: KeyRecord): string {
  return entitlements === "" ? "" : `,"entitlements":${entitlements}`;
}

/** Returns the rest of the allowance: null if it is unlimited, 0 if the limit was lowered below the use. */
export function remainingOf(record: KeyRecord, used: number): number | null {
  return record.monthlyLimit === null ? null : Math.max(0, record.monthlyLimit - used);
}

/** Tells whether the month's allowance is used up. */
export function isUsedUp(record: KeyRecord, month: Month): boolean {
  return remainingOf(record, usedIn(record, month.index)) === 0;
}
