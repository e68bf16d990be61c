/** What is kept of an answer must never outlive what it says. */
import { expect, test } from "bun:test";
import { monthOf, toMonth } from "../../src/calendar.ts";
import { renderLicense } from "../../src/http/license_answer.ts";
import { type KeyRecord, noteUsage } from "../../src/keys/key_record.ts";
import { keyRecord } from "../support/records.ts";

const month = monthOf(Date.parse("2026-11-20T10:00:00Z"));
const next = toMonth(month.index + 1);

const recordOf = (used: number) =>
  keyRecord({
    monthlyLimit: 10,
    expiresAtMs: Date.parse("2027-11-20T10:00:00Z"),
    usage: { monthIndex: month.index, used },
  });

const quotaOf = (record: KeyRecord, at = month, withAccount = true) =>
  JSON.parse(renderLicense(record, at, { withAccount }).text).quota;

for (const withAccount of [true, false]) {
  const title = withAccount ? "with the account" : "without it";

  test(`renderLicense() shows each new count, ${title}`, () => {
    const record = recordOf(3);
    expect(quotaOf(record, month, withAccount)).toMatchObject({ used: 3, remaining: 7 });
    noteUsage(record, { monthIndex: month.index, used: 4 });
    expect(quotaOf(record, month, withAccount)).toMatchObject({ used: 4, remaining: 6 });
  });

  test(`renderLicense() begins anew with the month, ${title}`, () => {
    const record = recordOf(3);
    expect(quotaOf(record, month, withAccount)).toMatchObject({ used: 3, resets_at: "2026-12-01T00:00:00Z" });
    expect(quotaOf(record, next, withAccount)).toMatchObject({ used: 0, resets_at: "2027-01-01T00:00:00Z" });
  });

  test(`renderLicense() says the rest as it did before, ${title}`, () => {
    const record = recordOf(3);
    renderLicense(record, month, { withAccount });
    renderLicense(record, next, { withAccount });
    const again = renderLicense(record, month, { withAccount }).text;
    expect(again).toBe(renderLicense(recordOf(3), month, { withAccount }).text);
    expect(JSON.parse(again)).toMatchObject({ valid: true, expires_at: "2027-11-20T10:00:00Z" });
    expect("email" in JSON.parse(again)).toBe(withAccount);
  });
}
