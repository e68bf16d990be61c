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
import { openSession } from "../../../src/database/mod.ts";
import { commitEvents, importReport, openReportDatabase } from "../../../src/usage/mod.ts";
import { startAdmin } from "../../support/admin.ts";
import { createTestClock } from "../../support/clock.ts";
import { MUCH_ROOM, usageEvent } from "../../support/events.ts";
import { ACTOR, issue } from "../../support/issue.ts";
import { until } from "../../support/until.ts";
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

describe("a report with many events", () => {
  /** Lets the statement of an import wait, while this is held, where it has stored its events. */
  const LOCK = 7_310_550;

  async function makeImportsWait(): Promise<void> {
    await server.database.query((sql) =>
      sql.unsafe(`
        create function wait_for_test() returns trigger language plpgsql as $$
        begin
          perform pg_advisory_xact_lock_shared(${LOCK});
          return new;
        end $$`),
    );
    await server.database.query((sql) =>
      sql.unsafe(`
        create trigger wait_for_test before insert on events for each row
          when (new.report_id is not null) execute function wait_for_test()`),
    );
  }

  const isWaiting = () =>
    server.database.query(
      (sql) => sql`
        select from pg_locks where locktype = 'advisory' and objid = ${LOCK}::oid and not granted
           and database = (select oid from pg_database where datname = current_database())`,
    );

  test.each([
    ["without texts", {}],
    ["with texts", { metadata: { channels: 8 }, error_message: "the amplifier was off", success: false }],
  ])("%s does not delay the events that clients of its license send meanwhile", async (_, texts) => {
    await makeImportsWait();
    await using others = openReportDatabase(server.address, { clock: systemClock, log: silentLog });
    const { licenseUuid } = await issue(server.database, { monthlyLimit: 10 });
    const day = "2026-11-04";
    const events = Array.from({ length: 8 }, (_, index) => ({
      ...{ idempotency_key: `event-${index}`, occurred_at: `${day}T12:00:00Z`, event_type: "inference" },
      ...{ inference_type: "batch", ...texts },
    }));
    const report = await parsed(
      createJournal(licenseUuid).next({
        made_at: "2026-11-05T11:00:00Z",
        days: [{ day, count: 8, failed: "success" in texts ? 8 : 0 }],
        events,
      }),
    );
    const session = openSession(server.address, { statementTimeoutMs: 60_000 });
    try {
      await session.sql`select pg_advisory_lock(${LOCK})`;
      const options = { actor: ACTOR, now: NOW, textBounds: MUCH_ROOM };
      const importing = importReport(others, report, options);
      await until(async () => (await isWaiting()).length > 0, { what: "the import waits" });
      const sent = Array.from({ length: 5 }, () =>
        usageEvent({ licenseUuid, receivedAtMs: NOW.getTime(), metadata: `{"channels": 16}` }),
      );
      const { grants } = await commitEvents(server.database, sent, {
        ...{ processUuid: newUuid(), textBounds: MUCH_ROOM, deadlineMs: 2_000 },
      });
      expect(grants).toMatchObject([{ granted: 5, used: 5 }]);
      expect(await isWaiting()).toHaveLength(1);
      await session.sql`select pg_advisory_unlock(${LOCK})`;
      const result = await importing;
      expect(isRefusal(result) ? result.sentence : result.months).toMatchObject([
        { units: 8, over: 3, before: { used: 5, over: 0 }, after: { used: 10, over: 3 } },
      ]);
    } finally {
      await session.close();
      await server.database.query((sql) => sql.unsafe("drop function wait_for_test cascade"));
    }
    const [stored] = await server.database.query<{ withTexts: number; bytes: number }>(
      (sql) => sql`
        select count(*) filter (where metadata is not null) as "withTexts",
               (select bytes from event_texts where license_id = ${licenseUuid}::uuid) as bytes
          from events where license_id = ${licenseUuid}::uuid`,
    );
    expect(stored?.withTexts).toBe("metadata" in texts ? 13 : 5);
    const [counted] = await server.database.query<{ bytes: number }>(
      (sql) => sql`
        select sum(pg_column_size(metadata) + coalesce(octet_length(error_message), 0))::bigint as bytes
          from events where license_id = ${licenseUuid}::uuid`,
    );
    expect(stored?.bytes).toBe(counted?.bytes ?? 0);
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
