/** Imports a report exactly once, or says what an import would do. `_write_report.ts` has the statement. */
import type { By } from "../../audit/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import type { TextBounds } from "../_text_room.ts";
import { writeReport } from "./_write_report.ts";
import type { UsageReport } from "./parse_report.ts";
import {
  type Allowed,
  type ChangedMonth,
  findStanding,
  type KnownReport,
  marksOfAllowed,
  type OpenJournal,
  type Origin,
  planMonths,
  refuseOutOfTurn,
  type Standing,
  type Turn,
} from "./standing.ts";

export interface ImportOptions extends By, Pick<Turn, "refused"> {
  readonly textBounds: TextBounds;
  /** By default nothing that is out of turn. */
  readonly allowed?: Allowed;
}

/** What became of a report. */
export interface ReportResult extends Origin {
  readonly report: UsageReport;
  /** `known`: it was imported before, and the months are what it changed then. `foreseen`: nothing was changed. */
  readonly outcome: "imported" | "known" | "foreseen";
  /** When it was imported. */
  readonly at: Date;
  readonly months: readonly ChangedMonth[];
  readonly marks: readonly string[];
}

/** The statement is tried again if another import came first and has left this report the next one. */
const MOST_TRIES = 3;
const BUSY = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot import report: other reports of this machine are being imported; try again",
);

/** Imports a report, or says what it changed when it was imported before. A refusal changes nothing. */
export async function importReport(
  database: Database,
  report: UsageReport,
  options: ImportOptions,
): Promise<ReportResult | Refusal> {
  const { now, allowed = {} } = options;
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const standing = await findStanding(database, report, now);
    if (isRefusal(standing)) return standing;
    if (standing.known !== null) return toKnown(report, standing, standing.known);
    const refusal = refuseOutOfTurn(report, standing, turnOf(options));
    if (refusal !== undefined) return refusal;
    const written = await writeReport(database, report, { ...options, allowed, open: standing.open });
    if (written !== undefined)
      return { report, ...originOf(standing), outcome: "imported", at: now, ...written };
  }
  return BUSY;
}

function turnOf({ now, actor, allowed = {}, refused }: Omit<ImportOptions, "textBounds">): Turn {
  return { now, allowed, hasReason: actor.reason !== undefined, refused };
}

function originOf({ customer, machineUuid }: Origin): Origin {
  return { customer, machineUuid };
}

function toKnown(
  report: UsageReport,
  origin: Origin,
  { importedAt: at, months, marks }: KnownReport,
): ReportResult {
  return { report, ...originOf(origin), outcome: "known", at, months, marks };
}

/**
 * Says what an import of reports would do, each after those before it. Changes nothing. Of several reports of one machine the
 * earlier ones come first.
 */
export async function foreseeReports(
  database: Database,
  reports: readonly UsageReport[],
  options: Omit<ImportOptions, "textBounds" | "refused">,
): Promise<(ReportResult | Refusal)[]> {
  const { now } = options;
  const journals = new Map<string, OpenJournal>();
  const counts = new Map<string, ChangedMonth["after"]>();
  const results: (ReportResult | Refusal)[] = [];
  const seen = new Map<string, ReportResult>();
  const refused = createRefusedNumbers();
  for (const report of reports) {
    const before = seen.get(report.digest);
    if (before !== undefined) {
      // A second copy of the same report.
      results.push({ ...before, outcome: "known" });
      continue;
    }
    const found = await findStanding(database, report, now);
    if (isRefusal(found)) {
      results.push(found);
      continue;
    }
    const { licenseUuid, machine } = report;
    const name = `${licenseUuid} ${machine}`;
    const used = new Map(found.used);
    for (const { firstDay } of report.months) {
      const foreseen = counts.get(`${licenseUuid} ${firstDay}`);
      if (foreseen !== undefined) used.set(firstDay, foreseen);
    }
    const standing: Standing = { ...found, used, open: journals.get(name) ?? found.open };
    const result = foresee(report, standing, turnOf({ ...options, refused: refused.of(report) }));
    results.push(result);
    if (isRefusal(result)) {
      refused.add(report);
      continue;
    }
    seen.set(report.digest, result);
    if (result.outcome === "known") continue;
    journals.set(name, { ...report, uuid: "", reportedAt: now });
    for (const { month, after } of result.months) counts.set(`${licenseUuid} ${month}-01`, after);
  }
  return results;
}

/** Creates the list of the reports that were refused among several, by their journals: they need not be written again. */
export function createRefusedNumbers() {
  const numbers = new Map<string, number[]>();
  const nameOf = ({ licenseUuid, machine, journal }: UsageReport) => `${licenseUuid} ${machine} ${journal}`;
  return {
    add(report: UsageReport): void {
      numbers.set(nameOf(report), [...(numbers.get(nameOf(report)) ?? []), report.number]);
    },
    of: (report: UsageReport): readonly number[] => numbers.get(nameOf(report)) ?? [],
  };
}

function foresee(report: UsageReport, standing: Standing, turn: Turn): ReportResult | Refusal {
  if (standing.known !== null) return toKnown(report, standing, standing.known);
  const refusal = refuseOutOfTurn(report, standing, turn);
  if (refusal !== undefined) return refusal;
  const { now, allowed } = turn;
  const marks = [...standing.marks, ...marksOfAllowed(report, now, allowed)];
  return {
    report,
    ...originOf(standing),
    outcome: "foreseen",
    at: now,
    months: planMonths(report, standing),
    marks,
  };
}
