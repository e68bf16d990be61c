/**
 * What is said before an import is what it does: the plan in TypeScript and the statement in SQL count the same in many random
 * cases of limits, use and units.
 */
import { expect, test } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import { foreseeReports, importReport } from "../../../src/usage/mod.ts";
import { MUCH_ROOM } from "../../support/events.ts";
import { ACTOR, issue, NOW, orThrow } from "../../support/issue.ts";
import { useDatabase } from "../../support/use.ts";
import { createRandom } from "./alterations.ts";
import { createJournal, parsed } from "./report_kit.ts";

const database = useDatabase();
const OPTIONS = { actor: ACTOR, now: NOW, textBounds: MUCH_ROOM };
const LICENSES = 6;
const REPORTS = 40;
/** Small ones, so that a limit is often just reached, and the largest count of a row. */
const UNITS = [0, 1, 2, 3, 7, 100_000_000_000];
/** Null is the limit of the tier, and that of `enterprise` is none. */
const LIMITS = [null, 0, 1, 5, 10, 30, 100_000_000_000];
const DAYS = ["2026-09-01", "2026-10-31", "2026-11-01", "2026-11-02", "2026-11-19"];

test("foreseeReports() says what importReport() then changes, for random limits, use and units", async () => {
  const random = createRandom(7);
  const pick = <Value>(values: readonly Value[]) => values[random(values.length)] as Value;
  let beyond = 0;
  for (let made = 0; made < LICENSES; made++) {
    const { licenseUuid } = await issue(database, { tier: made % 2 === 0 ? "enterprise" : "free" });
    const journal = createJournal(licenseUuid);
    for (let sent = 0; sent < REPORTS; sent++) {
      await database.query(
        (sql) =>
          sql`update licenses set monthly_limit = ${pick(LIMITS)}::bigint where id = ${licenseUuid}::uuid`,
      );
      const days = DAYS.filter(() => random(2) === 0).map((day) => ({ day, count: pick(UNITS) }));
      const report = await parsed(journal.next({ days }));
      const [foreseen] = await foreseeReports(database, [report], OPTIONS);
      if (foreseen === undefined || isRefusal(foreseen)) throw new Error("The report is the next one");
      const { months, outcome } = orThrow(await importReport(database, report, OPTIONS));
      expect({ outcome, months }).toEqual({ outcome: "imported", months: foreseen.months });
      beyond += months.filter(({ over, units }) => over > 0 && over < units).length;
    }
  }
  // Many a report met its limit in the middle.
  expect(beyond).toBeGreaterThan(20);
});
