/** The sentences of notices: their times are to the minute, or a day alone, in every kind. */
import { describe, expect, test } from "bun:test";
import { describeNotice, NOTICE_KINDS, type NoticeSummary } from "../../src/notices/mod.ts";

const AT = "2027-01-31T12:30:07Z";
const FACTS = ["ends_at", "resets_at", "hour", "used_at", "silent_since", "due_at", "last_at", "full_since"];

function say(notice: Partial<NoticeSummary>): string {
  const at = new Date(AT);
  return describeNotice({
    ...{
      id: "ntc_1",
      kind: "license_end",
      state: "open",
      stage: 0,
      userId: null,
      licenseId: null,
      keyId: null,
    },
    ...{ email: "ada@example.org", key: null, trueSince: at, madeAt: at, remindAt: null, closedAt: null },
    ...{ closedBy: null, withdrawnFor: null, facts: Object.fromEntries(FACTS.map((name) => [name, AT])) },
    ...notice,
  });
}

describe("describeNotice()", () => {
  test.each(NOTICE_KINDS)("says the times of %s without seconds", (kind) => {
    for (const stage of [-7, 0, 80, 100])
      expect(say({ kind, stage })).not.toMatch(/\d{2}:\d{2}:\d{2}|\dT\d|\dZ/);
  });

  test.each([
    ["2027-01-31T23:59:59Z", "on 2027-01-31"],
    [AT, "at 2027-01-31 12:30 UTC"],
    ["2027-01-31T23:59:00Z", "at 2027-01-31 23:59 UTC"],
  ])("says the end %s as %s", (ends_at, end) => {
    const facts = { ends_at, host: "one" };
    const whom = "of ada@example.org";
    expect(say({ stage: -7, facts })).toStartWith(`The license ${whom} ends within 7 days, ${end}. `);
    expect(say({ facts })).toStartWith(`The license ${whom} ended ${end}. `);
    const kind = "updates_end";
    expect(say({ kind, stage: -7, facts })).toContain(`${whom} end within 7 days, ${end}. `);
    expect(say({ kind, facts })).toContain(
      `${whom} ended ${end}: versions of models that are registered later`,
    );
    expect(say({ kind: "certificate_end", facts })).toStartWith(`The certificate of one ended ${end}. `);
  });
});
