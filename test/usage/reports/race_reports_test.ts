/**
 * Reports beside everything else: two services and two commands with the same report at the same moment, and clients that send
 * events of both months meanwhile. The use is never above the limit.
 */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { monthOf } from "../../../src/base/calendar.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid } from "../../../src/base/ids.ts";
import { silentLog } from "../../../src/base/log.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { commitEvents, importReport, openReportDatabase } from "../../../src/usage/mod.ts";
import { startAdmin } from "../../support/admin.ts";
import { createTestClock } from "../../support/clock.ts";
import { MUCH_ROOM, usageEvent } from "../../support/events.ts";
import { ACTOR, issue } from "../../support/issue.ts";
import { useForAll, useTestDatabase } from "../../support/use.ts";
import { createJournal, parsed } from "./report_kit.ts";

const NOW = new Date("2026-11-05T12:00:00Z");
const server = useTestDatabase();
const clock = createTestClock(NOW.toISOString(), { stands: true });
const admins = [0, 1].map(() => useForAll(() => startAdmin({ on: server, clock })));

interface Month {
  readonly month: string;
  readonly used: number;
  readonly over: number;
  readonly byDay: number;
}

async function monthsOf(licenseUuid: string): Promise<Month[]> {
  return await server.database.query<Month>(
    (sql) => sql`
      select to_char(month, 'YYYY-MM') as month, used, over,
             (select sum(units) from unnest(by_day) as units)::bigint as "byDay"
        from usage where license_id = ${licenseUuid}::uuid order by month`,
  );
}

function newClaim(occurredAtMs: number) {
  const hash = randomBytes(32).toString("hex");
  return { hash, digest: hash, occurredAtMs, eventHash: hash };
}

describe("a report that two processes get at the same moment", () => {
  test("is imported once, and both answer what it changed", async () => {
    const { licenseUuid } = await issue(server.database, {});
    const journal = createJournal(licenseUuid);
    for (let round = 0; round < 10; round++) {
      const text = journal.next({ made_at: "2026-11-05T11:00:00Z", days: [{ day: "2026-11-04", count: 3 }] });
      const answers = await Promise.all(
        admins.map((admin) => admin.call("POST", "/usage/reports", { file: text })),
      );
      expect(answers.map(({ body }) => body.outcome).sort()).toEqual(["imported", "known"]);
      const [one, other] = answers;
      expect(one?.body.months).toEqual(other?.body.months);
    }
    expect(await monthsOf(licenseUuid)).toEqual([{ month: "2026-11", used: 30, over: 0, byDay: 30 }]);
    const rows = await server.database.query(
      (sql) => sql`select from audit where action = 'usage.report' and license_id = ${licenseUuid}::uuid`,
    );
    expect(rows).toHaveLength(10);
  });
});

describe("a report that five programs import at the same moment", () => {
  test("is imported by one of them", async () => {
    const { licenseUuid } = await issue(server.database, {});
    const journal = createJournal(licenseUuid);
    const script = join(import.meta.dir, "import_in_process.ts");
    for (let round = 0; round < 2; round++) {
      const text = journal.next();
      const programs = Array.from({ length: 5 }, () =>
        Bun.spawn([process.execPath, script, JSON.stringify(server.address), text], {
          ...{ stdout: "pipe", stderr: "inherit" },
        }),
      );
      const answers = await Promise.all(programs.map(({ stdout }) => new Response(stdout).text()));
      expect(answers.sort()).toEqual(["imported", "known", "known", "known", "known"]);
    }
    expect(await monthsOf(licenseUuid)).toEqual([{ month: "2026-11", used: 6, over: 0, byDay: 6 }]);
  });
});

describe("reports beside events of both months", () => {
  test("never use more than the limit, and lose nothing", async () => {
    const LIMIT = 400;
    const key = await issue(server.database, { monthlyLimit: LIMIT });
    const { licenseUuid } = key;
    await using others = openReportDatabase(server.address, { clock: systemClock, log: silentLog });
    let isOver = false;
    let granted = 0;
    const send = async (occurredAtMs: number | null) => {
      while (!isOver) {
        const events = Array.from({ length: 3 }, () =>
          usageEvent({
            licenseUuid,
            receivedAtMs: NOW.getTime(),
            occurredAtMs,
            // Every event with a time of its own has a claim.
            claim: occurredAtMs === null ? null : newClaim(occurredAtMs),
          }),
        );
        const options = { processUuid: newUuid(), textBounds: MUCH_ROOM, deadlineMs: 10_000 };
        const { grants } = await commitEvents(server.database, events, options);
        granted += grants[0]?.granted ?? 0;
      }
    };
    const watch = async () => {
      while (!isOver) {
        for (const { month, used, byDay } of await monthsOf(licenseUuid)) {
          expect(used).toBeLessThanOrEqual(LIMIT);
          expect([month, byDay]).toEqual([month, used]);
        }
      }
    };
    const late = Date.parse("2026-10-31T23:00:00Z");
    const racing = [send(null), send(late), send(null), watch()];
    const journals = ["machine-a1", "machine-b2"].map((fingerprint) =>
      createJournal(licenseUuid, { fingerprint }),
    );
    let reported = 0;
    let counted = 0;
    let over = 0;
    await Promise.all(
      journals.map(async (journal) => {
        for (let round = 0; round < 25; round++) {
          const days = [
            { day: "2026-10-30", count: 4 },
            { day: "2026-11-04", count: 5 },
          ];
          const report = await parsed(journal.next({ made_at: "2026-11-05T11:00:00Z", days }));
          const result = await importReport(others, report, {
            actor: ACTOR,
            now: NOW,
            textBounds: MUCH_ROOM,
          });
          if (isRefusal(result)) throw new Error(result.sentence);
          for (const month of result.months) {
            reported += month.units;
            over += month.over;
            counted += month.units - month.over;
          }
        }
      }),
    );
    isOver = true;
    await Promise.all(racing);
    const months = await monthsOf(licenseUuid);
    const sum = (of: (month: Month) => number) => months.reduce((total, month) => total + of(month), 0);
    expect(reported).toBe(2 * 25 * 9);
    expect(over).toBeGreaterThan(0);
    expect(sum((month) => month.used)).toBe(granted + counted);
    expect(sum((month) => month.over)).toBe(over);
    expect(months.every(({ used, byDay }) => used <= LIMIT && used === byDay)).toBe(true);
    expect(months.map(({ month }) => month)).toEqual(["2026-10", "2026-11"]);
    expect(monthOf(NOW.getTime()).firstDay).toBe("2026-11-01");
  });
});
