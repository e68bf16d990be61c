/**
 * The license and quota object, as JSON text.
 *
 * All of it but the counts is the same for a key's whole time in the cache, so it is rendered once a
 * record and put together by joining strings.
 */
import { type Month, toTimestamp } from "../calendar.ts";
import { type KeyRecord, usedIn } from "../keys/mod.ts";
import { featuresOf } from "../licensing/mod.ts";

interface Rendered {
  /** Everything before the quota, with and without the account. */
  readonly withAccount: string;
  readonly withoutAccount: string;
  readonly limit: string;
  readonly end: string;
}

const rendered = new WeakMap<KeyRecord, Rendered>();

function render(record: KeyRecord): Rendered {
  const account = {
    user_id: record.userId,
    email: record.email,
    name: record.name,
    organization: record.organization,
  };
  const license = { license_type: record.tier, features: featuresOf(record.tier) };
  const open = (value: object) => JSON.stringify(value).slice(0, -1);
  const made = {
    withAccount: `${open({ valid: true, ...account, ...license })},"quota":`,
    withoutAccount: `${open({ valid: true, ...license })},"quota":`,
    limit: String(record.monthlyLimit),
    end: `,"expires_at":"${toTimestamp(new Date(record.expiresAtMs))}"}`,
  };
  rendered.set(record, made);
  return made;
}

/** Renders the answer of validate (with the account) or refresh (without). */
export function renderLicense(record: KeyRecord, month: Month, options: { withAccount: boolean }): string {
  const parts = rendered.get(record) ?? render(record);
  const used = usedIn(record, month.index);
  const remaining = remainingOf(record, used);
  const begin = options.withAccount ? parts.withAccount : parts.withoutAccount;
  const counts = `"monthly_limit":${parts.limit},"used":${used},"remaining":${remaining}`;
  return `${begin}{${counts},"resets_at":"${month.resetsAt}"}${parts.end}`;
}

/** What is left of the allowance: null where it is unlimited, 0 where the limit was lowered below the use. */
export function remainingOf(record: KeyRecord, used: number): number | null {
  return record.monthlyLimit === null ? null : Math.max(0, record.monthlyLimit - used);
}

/** True when nothing is left of the month's allowance. */
export function isUsedUp(record: KeyRecord, month: Month): boolean {
  return remainingOf(record, usedIn(record, month.index)) === 0;
}
