/** Imports of reports: each exactly once, within the limits of the months, and what is beyond them as `over`. */
import { describe, expect, test } from "bun:test";
import { newUuid, toId } from "../../../src/base/ids.ts";
import type { Refusal } from "../../../src/base/refusal.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import {
  foreseeReports,
  type ImportOptions,
  importReport,
  type ReportResult,
  type UsageReport,
} from "../../../src/usage/mod.ts";
import { MUCH_ROOM } from "../../support/events.ts";
import { ACTOR, issue, NOW } from "../../support/issue.ts";
import { useDatabase } from "../../support/use.ts";
import { createJournal, OTHER_JOURNAL, parsed } from "./report_kit.ts";

const database = useDatabase();

const OPTIONS: ImportOptions = { actor: ACTOR, now: NOW, textBounds: MUCH_ROOM };
const ANEW: ImportOptions = {
  ...OPTIONS,
  allowed: { newJournal: true },
  actor: { ...ACTOR, reason: "restored" },
};

async function send(text: string, options = OPTIONS): Promise<ReportResult | Refusal> {
  return await importReport(database, await parsed(text), options);
}

function shown(result: ReportResult | Refusal) {
  if (isRefusal(result)) return result.sentence.replace(/ of \S+ \(lic_\w+ on [^)]+\)/, "");
  const { outcome, months, marks } = result;
  return { outcome, months, marks };
}

interface Use {
  readonly month: string;
  readonly used: number;
  readonly over: number;
  readonly byDay: readonly number[];
}

async function useOf(licenseUuid: string): Promise<Use[]> {
  return await database.query<Use>(
    (sql) => sql`
      select to_char(month, 'YYYY-MM') as month, used, over, to_json(by_day) as "byDay" from usage
       where license_id = ${licenseUuid}::uuid order by month`,
  );
}

/** Returns a month by day with some days. */
function days(of: Readonly<Record<number, number>>): number[] {
  return Array.from({ length: 31 }, (_, index) => of[index + 1] ?? 0);
}

describe("importReport()", () => {
  test("counts the units of both months, and says before and after", async () => {
    const { licenseUuid } = await issue(database, { tier: "research" });
    const text = createJournal(licenseUuid).next({
      days: [
        { day: "2026-11-19", count: 3, failed: 1 },
        { day: "2026-10-31", count: 4 },
        { day: "2026-11-19", model_name: "p300", count: 2 },
        { day: "2026-11-02", event_type: "model_load", count: 9 },
      ],
    });
    const report = await parsed(text);
    const months = [
      { month: "2026-10", units: 4, over: 0, before: { used: 0, over: 0 }, after: { used: 4, over: 0 } },
      { month: "2026-11", units: 5, over: 0, before: { used: 0, over: 0 }, after: { used: 5, over: 0 } },
    ];
    const [foreseen] = await foreseeReports(database, [report], OPTIONS);
    expect(foreseen && shown(foreseen)).toEqual({ outcome: "foreseen", months, marks: [] });
    expect(await useOf(licenseUuid)).toEqual([]);
    expect(shown(await send(text))).toEqual({ outcome: "imported", months, marks: [] });
    expect(await useOf(licenseUuid)).toEqual([
      { month: "2026-10", used: 4, over: 0, byDay: days({ 31: 4 }) },
      { month: "2026-11", used: 5, over: 0, byDay: days({ 19: 5 }) },
    ]);
    const [row] = await database.query<{ before: object; after: object; licenseId: string; reason: null }>(
      (sql) => sql`
        select before, after, license_id as "licenseId", reason from audit where action = 'usage.report' order by id desc limit 1`,
    );
    expect(row).toEqual({
      before: { "used_2026-10": 0, "used_2026-11": 0 },
      after: { "used_2026-10": 4, "used_2026-11": 5, report: 1, machine: report.machine },
      licenseId: licenseUuid,
      reason: null,
    });
    expect(shown(await send(text))).toEqual({ outcome: "known", months, marks: [] });
    expect((await useOf(licenseUuid)).map(({ used }) => used)).toEqual([4, 5]);
  });

  test("counts what fits into the limit, the earlier days first, and the rest as over", async () => {
    const { licenseUuid } = await issue(database, { monthlyLimit: 10 });
    const journal = createJournal(licenseUuid);
    const first = await send(
      journal.next({
        days: [
          { day: "2026-11-12", count: 9 },
          { day: "2026-11-10", count: 4 },
        ],
      }),
    );
    expect(shown(first)).toMatchObject({
      months: [{ units: 13, over: 3, before: { used: 0, over: 0 }, after: { used: 10, over: 3 } }],
    });
    expect(await useOf(licenseUuid)).toEqual([
      { month: "2026-11", used: 10, over: 3, byDay: days({ 10: 4, 12: 6 }) },
    ]);
    // With a higher limit some of the next report fit. What was over stays over.
    await database.query(
      (sql) => sql`update licenses set monthly_limit = 12 where id = ${licenseUuid}::uuid`,
    );
    const text = journal.next({
      days: [
        { day: "2026-11-11", count: 1 },
        { day: "2026-11-13", count: 4 },
      ],
    });
    const report = await parsed(text);
    const [foreseen] = await foreseeReports(database, [report], OPTIONS);
    const months = [
      { month: "2026-11", units: 5, over: 3, before: { used: 10, over: 3 }, after: { used: 12, over: 6 } },
    ];
    expect(foreseen && shown(foreseen)).toEqual({ outcome: "foreseen", months, marks: [] });
    expect(shown(await send(text))).toEqual({ outcome: "imported", months, marks: [] });
    expect(await useOf(licenseUuid)).toEqual([
      { month: "2026-11", used: 12, over: 6, byDay: days({ 10: 4, 11: 1, 12: 6, 13: 1 }) },
    ]);
  });

  test("refuses a report out of turn, and says which ones are missing", async () => {
    const { licenseUuid } = await issue(database, {});
    const journal = createJournal(licenseUuid);
    const texts = [journal.next(), journal.next(), journal.next()];
    const [first = "", second = "", third = ""] = texts;
    const missing = (number: number, of: number) =>
      `Cannot import report ${of}: report ${number} of this machine is missing; import it first: the machine writes it again with \`report-again ${number} FILE\``;
    expect(shown(await send(second))).toBe(missing(1, 2));
    expect(shown(await send(third))).toBe(
      "Cannot import report 3: reports 1 to 2 of this machine are missing; import them first: the machine writes each " +
        "again, as with `report-again 1 FILE`",
    );
    await send(first);
    expect(shown(await send(third))).toBe(missing(2, 3));
    await send(second);
    expect(shown(await send(third))).toMatchObject({ outcome: "imported" });
    for (const text of texts) expect(shown(await send(text))).toMatchObject({ outcome: "known" });
    expect((await useOf(licenseUuid)).map(({ used }) => used)).toEqual([9]);
  });

  test("refuses the branches of a journal, and takes one as a new journal with a reason", async () => {
    const { licenseUuid } = await issue(database, {});
    const journal = createJournal(licenseUuid);
    await send(journal.next());
    const saved = journal.save();
    await send(journal.next());
    journal.restore(saved);
    const again = { days: [{ day: "2026-11-18", count: 7 }] };
    const [fork, next] = [journal.next(again), journal.next()];
    const remedy = "add new_journal with a reason if that is meant, such as after a restore of the machine";
    expect(shown(await send(fork))).toBe(
      `Cannot import report 2: report 2 of this machine was imported at 2026-11-20T12:00:00Z, and this one is none of those that were imported; ${remedy}`,
    );
    expect(shown(await send(next))).toBe(
      `Cannot import report 3: it does not follow the report 2 that was imported at 2026-11-20T12:00:00Z, but another one; ${remedy}`,
    );
    const other = createJournal(licenseUuid, { journal: OTHER_JOURNAL }).next();
    expect(shown(await send(other))).toBe(
      "Cannot import report 1: it is of another journal than the reports of this machine until now, of which the last one, " +
        `2, was imported at 2026-11-20T12:00:00Z; ${remedy}`,
    );
    expect(shown(await send(fork, { ...ANEW, actor: ACTOR }))).toContain("needs a reason");
    expect(shown(await send(fork, ANEW))).toMatchObject({ outcome: "imported", marks: ["new_journal"] });
    expect(shown(await send(fork, ANEW))).toMatchObject({ outcome: "known", marks: ["new_journal"] });
    expect(shown(await send(next))).toMatchObject({ outcome: "imported", marks: [] });
    expect(shown(await send(other, ANEW))).toMatchObject({ outcome: "imported" });
    expect((await useOf(licenseUuid)).map(({ used }) => used)).toEqual([3 + 3 + 7 + 3 + 3]);
    const journals = await database.query(
      (sql) => sql`
        select last_number as number, ended_at is null as "isOpen" from usage_journals
         where license_id = ${licenseUuid}::uuid order by began_at, id`,
    );
    expect(journals).toEqual([
      { number: 2, isOpen: false },
      { number: 3, isOpen: false },
      { number: 1, isOpen: true },
    ]);
  });

  test("names the customer and the machine, an unknown one by the beginning of its hash", async () => {
    const { licenseUuid } = await issue(database, { organization: "Test Lab", maxMachines: 1 });
    const second = await secondReport(licenseUuid);
    const result = await importReport(database, second, OPTIONS);
    const license = toId("lic", licenseUuid);
    expect(isRefusal(result) && result.sentence).toStartWith(
      `Cannot import report 2 of Test Lab (${license} on machine ${second.machine.slice(0, 8)}…): `,
    );
    const [row] = await database.query<{ uuid: string }>(
      (sql) => sql`
        select machine_id as uuid
          from take_place(${licenseUuid}::uuid, decode(${second.machine}, 'hex'), ${newUuid()}::uuid, null, null, true, null)`,
    );
    const known = await importReport(database, second, OPTIONS);
    expect(isRefusal(known) && known.sentence).toStartWith(
      `Cannot import report 2 of Test Lab (${license} on ${toId("mch", row?.uuid ?? "")}): `,
    );
  });

  test("marks the report of a license that is not active, and counts it", async () => {
    const marksAfter = async (change: (licenseUuid: string) => Promise<unknown>) => {
      const { licenseUuid } = await issue(database, {});
      await change(licenseUuid);
      const result = await send(createJournal(licenseUuid).next());
      expect((await useOf(licenseUuid)).map(({ used }) => used)).toEqual([3]);
      return isRefusal(result) ? result.sentence : result.marks;
    };
    const setKeys = (state: string) => (licenseUuid: string) =>
      database.query(
        (sql) => sql`
          update keys set state = ${state}, revoked_at = case when ${state}::text = 'revoked' then now() end
           where license_id = ${licenseUuid}::uuid`,
      );
    expect(await marksAfter(setKeys("suspended"))).toEqual(["suspended"]);
    expect(await marksAfter(setKeys("revoked"))).toEqual(["revoked"]);
    expect(
      await marksAfter((licenseUuid) =>
        database.query(
          (sql) => sql`update licenses set expires_at = ${NOW}::timestamptz where id = ${licenseUuid}::uuid`,
        ),
      ),
    ).toEqual(["expired"]);
  });

  test("refuses an unknown license, and a clock that is ahead", async () => {
    const unknown = "019a0000-0000-7000-8000-000000000000";
    expect(shown(await send(createJournal(unknown).next()))).toBe(
      `Cannot import report: there is no license ${toId("lic", unknown)}`,
    );
    const { licenseUuid } = await issue(database, {});
    const ahead = createJournal(licenseUuid).next({ made_at: "2026-11-21T12:00:01Z" });
    expect(shown(await send(ahead))).toBe(
      "Cannot import report 1: it was made at 2026-11-21T12:00:01Z, which is to come: the clock of the machine is ahead; " +
        "add clock_ahead with a reason if its use is to count with the days that it has",
    );
    expect(await useOf(licenseUuid)).toEqual([]);
  });

  test("names the report before it as refused, if it came along and was", async () => {
    const { licenseUuid } = await issue(database, {});
    const journal = createJournal(licenseUuid);
    const ahead = await parsed(journal.next({ made_at: "2026-12-20T11:00:00Z" }));
    const next = await parsed(journal.next());
    const [first, second] = await foreseeReports(database, [ahead, next], OPTIONS);
    expect(first && shown(first)).toContain("the clock of the machine is ahead");
    expect(second && shown(second)).toContain(": report 1 of this machine was refused: import it first");
  });

  test("lets a clock that is ahead pass with a reason: its days count in their own months", async () => {
    const { licenseUuid } = await issue(database, { monthlyLimit: 2 });
    const journal = createJournal(licenseUuid);
    const made_at = "2031-05-02T12:00:00Z";
    const ahead = journal.next({ made_at, days: [{ day: "2031-05-01", count: 3 }] });
    const pass = { ...OPTIONS, allowed: { clockAhead: true } };
    expect(shown(await send(ahead, pass))).toContain("a clock that is ahead, needs a reason");
    const reasoned = { ...pass, actor: { ...ACTOR, reason: "The battery of its clock was empty" } };
    const months = [
      { month: "2031-05", units: 3, over: 1, before: { used: 0, over: 0 }, after: { used: 2, over: 1 } },
    ];
    const [foreseen] = await foreseeReports(database, [await parsed(ahead)], reasoned);
    expect(foreseen && shown(foreseen)).toEqual({ outcome: "foreseen", months, marks: ["clock_ahead"] });
    expect(shown(await send(ahead, reasoned))).toEqual({
      outcome: "imported",
      months,
      marks: ["clock_ahead"],
    });
    // The chain goes on with the right clock, and the present month has its whole quota.
    const next = journal.next({ days: [{ day: "2026-11-19", count: 2 }] });
    expect(shown(await send(next))).toMatchObject({
      months: [{ month: "2026-11", units: 2, over: 0 }],
      marks: [],
    });
    const [row] = await database.query<{ reason: string; marks: string[] }>(
      (sql) => sql`
        select reason, after->'marks' as marks from audit
         where action = 'usage.report' and license_id = ${licenseUuid}::uuid order by id limit 1`,
    );
    expect(row).toEqual({ reason: "The battery of its clock was empty", marks: ["clock_ahead"] });
  });

  test("gives no mark for a right clock that an operator lets pass", async () => {
    const { licenseUuid } = await issue(database, {});
    const pass = { ...OPTIONS, allowed: { clockAhead: true }, actor: { ...ACTOR, reason: "to be safe" } };
    expect(shown(await send(createJournal(licenseUuid).next(), pass))).toMatchObject({ marks: [] });
  });

  test("imports a report once when many try at the same moment", async () => {
    const { licenseUuid } = await issue(database, { monthlyLimit: 1_000 });
    const journal = createJournal(licenseUuid);
    for (let round = 0; round < 5; round++) {
      const report = await parsed(journal.next());
      const results = await Promise.all(
        Array.from({ length: 8 }, () => importReport(database, report, OPTIONS)),
      );
      expect(outcomesOf(results)).toEqual(["imported", ...Array(7).fill("known")]);
    }
    const report = await parsed(createJournal(licenseUuid, { journal: OTHER_JOURNAL }).next());
    const results = await Promise.all(Array.from({ length: 8 }, () => importReport(database, report, ANEW)));
    expect(outcomesOf(results)).toEqual(["imported", ...Array(7).fill("known")]);
    expect((await useOf(licenseUuid)).map(({ used }) => used)).toEqual([18]);
  });

  test("imports one of two branches that come at the same moment", async () => {
    const { licenseUuid } = await issue(database, {});
    const branches = await Promise.all(
      [3, 4].map(async (count) =>
        parsed(createJournal(licenseUuid).next({ days: [{ day: "2026-11-19", count }] })),
      ),
    );
    const results = await Promise.all(branches.map((report) => importReport(database, report, OPTIONS)));
    expect(results.filter(isRefusal)).toHaveLength(1);
    expect(await useOf(licenseUuid)).toHaveLength(1);
  });

  test("stores the events with their times, also those beyond the limit", async () => {
    const { licenseUuid } = await issue(database, { monthlyLimit: 1 });
    const events = [
      {
        idempotency_key: "a",
        occurred_at: "2026-11-19T10:00:00.250Z",
        event_type: "inference",
        duration_ms: 1.5,
      },
      {
        idempotency_key: "b",
        occurred_at: "2026-11-19T10:00:01Z",
        event_type: "inference",
        model_name: "p300",
      },
      {
        idempotency_key: "c",
        occurred_at: "2026-10-31T23:59:59.999Z",
        event_type: "error",
        error_message: "no signal",
        metadata: { channels: 8 },
      },
    ];
    const text = createJournal(licenseUuid).next({
      days: [
        { day: "2026-11-19", count: 1 },
        { day: "2026-11-19", model_name: "p300", count: 1 },
        { day: "2026-10-31", event_type: "error", count: 1, failed: 1 },
      ],
      events,
    });
    expect(shown(await send(text))).toMatchObject({ outcome: "imported", months: [{ units: 2, over: 1 }] });
    const stored = await database.query(
      (sql) => sql`
        select occurred_at as "at", event_type as type, model_name as model, success, error_message as message, metadata,
               duration_ms as ms, report_id is not null as "isReported"
          from events where license_id = ${licenseUuid}::uuid order by occurred_at`,
    );
    const base = { model: null, success: true, message: null, metadata: null, ms: null, isReported: true };
    expect(stored as unknown[]).toEqual([
      {
        ...base,
        at: new Date("2026-10-31T23:59:59.999Z"),
        type: "error",
        success: false,
        message: "no signal",
        metadata: { channels: 8 },
      },
      { ...base, at: new Date("2026-11-19T10:00:00.250Z"), type: "inference", ms: 1.5 },
      { ...base, at: new Date("2026-11-19T10:00:01Z"), type: "inference", model: "p300" },
    ]);
  });

  test("tells the other processes what is used, as their pulse reads it", async () => {
    const { licenseUuid } = await issue(database, { monthlyLimit: 2 });
    await send(createJournal(licenseUuid).next());
    const changes = await database.query(
      (sql) =>
        sql`select to_json(used) as used from usage_changes where ${licenseUuid}::uuid = any(license_ids)`,
    );
    expect(changes as unknown[]).toEqual([{ used: [2] }]);
  });
});

describe("foreseeReports()", () => {
  test("foresees each report after those before it", async () => {
    const { licenseUuid } = await issue(database, { monthlyLimit: 5 });
    const journal = createJournal(licenseUuid);
    const reports: UsageReport[] = [];
    for (let count = 0; count < 3; count++) reports.push(await parsed(journal.next()));
    const [first, , third] = reports;
    const foreseen = await foreseeReports(database, reports, OPTIONS);
    expect(foreseen.map((each) => (isRefusal(each) ? each.code : each.months[0]?.over))).toEqual([0, 1, 3]);
    const gap = await foreseeReports(database, first && third ? [first, third] : [], OPTIONS);
    expect(gap.map((each) => (isRefusal(each) ? each.code : each.outcome))).toEqual(["foreseen", "CONFLICT"]);
  });

  test("names as missing only what was not sent with the others", async () => {
    const { licenseUuid } = await issue(database, {});
    const journal = createJournal(licenseUuid);
    const all: UsageReport[] = [];
    for (let count = 0; count < 8; count++) all.push(await parsed(journal.next()));
    const sent = [0, 3, 4, 7].flatMap((index) => all[index] ?? []);
    const foreseen = await foreseeReports(database, sent, OPTIONS);
    expect(
      foreseen.map((each) => /reports? [\d, to]+ of this machine/.exec(String(shown(each)))?.[0]),
    ).toEqual([
      undefined,
      "reports 2 to 3 of this machine",
      "reports 2 to 3 of this machine",
      "reports 2 to 3, 6 to 7 of this machine",
    ]);
  });
});

/** Makes the second report of a machine, without the first one. */
async function secondReport(licenseUuid: string): Promise<UsageReport> {
  const journal = createJournal(licenseUuid);
  journal.next();
  return await parsed(journal.next());
}

function outcomesOf(results: readonly (ReportResult | Refusal)[]): string[] {
  return results.map((each) => (isRefusal(each) ? each.sentence : each.outcome)).sort();
}
