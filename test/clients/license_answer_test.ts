/** The cached text of an answer is never used after its facts have changed. */
import { expect, test } from "bun:test";
import { monthOf, toMonth } from "../../src/base/calendar.ts";
import { isUsedUp, renderRefresh, renderValidate } from "../../src/clients/license_answer.ts";
import { type KeyRecord, updateUsedCount } from "../../src/licensing/keys/key_record.ts";
import { keyRecord } from "../support/records.ts";

const month = monthOf(Date.parse("2026-11-20T10:00:00Z"));
const next = toMonth(month.index + 1);

const recordOf = (used: number) =>
  keyRecord({
    monthlyLimit: 10,
    expiresAtMs: Date.parse("2027-11-20T10:00:00Z"),
    usage: { monthIndex: month.index, used },
  });

for (const [what, render] of [
  ["renderValidate()", renderValidate],
  ["renderRefresh()", renderRefresh],
] as const) {
  const quotaOf = (record: KeyRecord, at = month) => JSON.parse(render(record, at)).quota;

  test(`${what} shows each new count`, () => {
    const record = recordOf(3);
    expect(quotaOf(record)).toMatchObject({ used: 3, remaining: 7 });
    updateUsedCount(record, { monthIndex: month.index, used: 4 });
    expect(quotaOf(record)).toMatchObject({ used: 4, remaining: 6 });
  });

  test(`${what} counts from 0 in a new month`, () => {
    const record = recordOf(3);
    expect(quotaOf(record)).toMatchObject({ used: 3, resets_at: "2026-12-01T00:00:00Z" });
    expect(quotaOf(record, next)).toMatchObject({ used: 0, resets_at: "2027-01-01T00:00:00Z" });
  });

  test(`${what} keeps the other fields unchanged`, () => {
    const record = recordOf(3);
    render(record, month);
    render(record, next);
    const again = render(record, month);
    expect(again).toBe(render(recordOf(3), month));
    expect(JSON.parse(again)).toMatchObject({ valid: true, expires_at: "2027-11-20T10:00:00Z" });
    expect("email" in JSON.parse(again)).toBe(render === renderValidate);
  });
}

test("isUsedUp() tells whether the month's allowance is used up, whatever was rendered before", () => {
  const record = recordOf(9);
  renderValidate(record, month);
  expect(isUsedUp(record, month)).toBe(false);
  updateUsedCount(record, { monthIndex: month.index, used: 10 });
  expect(isUsedUp(record, month)).toBe(true);
  renderValidate(record, month);
  expect(isUsedUp(record, next)).toBe(false);
});
