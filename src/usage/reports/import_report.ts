/** Imports a report exactly once, or says what an import would do. `_write_report.ts` has the statement. */
import type { By } from "../../audit/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import type { TextBounds } from "../_text_room.ts";
import { writeReport } from "./_write_report.ts";
import type { UsageReport } from "./parse_report.ts";
import {
  type ChangedMonth,
  findStanding,
  type KnownReport,
  type OpenJournal,
  planMonths,
  refuseOutOfTurn,
  type Standing,
} from "./standing.ts";

export interface ImportOptions extends By {
  readonly textBounds: TextBounds;
  /** Lets the report begin another journal of its machine, whatever its number. The actor must have a reason. */
  readonly newJournal?: boolean;
}

/** What became of a report. */
export interface ReportResult {
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
export const NEEDS_REASON = refuse("INVALID_REQUEST", "Cannot import report: a new journal needs a reason", {
  fields: [
    { field: "reason", error: "A new journal needs a reason", hint: "It is needed for a new journal" },
  ],
});

/** Imports a report, or says what it changed when it was imported before. A refusal changes nothing. */
export async function importReport(
  database: Database,
  report: UsageReport,
  options: ImportOptions,
): Promise<ReportResult | Refusal> {
  const { now, actor, newJournal = false } = options;
  if (newJournal && actor.reason === undefined) return NEEDS_REASON;
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const standing = await findStanding(database, report, now);
    if (isRefusal(standing)) return standing;
    if (standing.known !== null) return toKnown(report, standing.known);
    const refusal = refuseOutOfTurn(report, standing, { now, newJournal });
    if (refusal !== undefined) return refusal;
    const written = await writeReport(database, report, { ...options, newJournal, open: standing.open });
    if (written !== undefined) return { report, outcome: "imported", at: now, ...written };
  }
  return BUSY;
}

function toKnown(report: UsageReport, { importedAt: at, months, marks }: KnownReport): ReportResult {
  return { report, outcome: "known", at, months, marks };
}

/**
 * Says what an import of reports would do, each after those before it. Changes nothing. Of several reports of one machine the
 * earlier ones come first.
 */
export async function foreseeReports(
  database: Database,
  reports: readonly UsageReport[],
  { now, newJournal = false }: Pick<ImportOptions, "now" | "newJournal">,
): Promise<(ReportResult | Refusal)[]> {
  const journals = new Map<string, OpenJournal>();
  const counts = new Map<string, ChangedMonth["after"]>();
  const results: (ReportResult | Refusal)[] = [];
  const seen = new Map<string, ReportResult>();
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
    const result = foresee(report, standing, { now, newJournal });
    results.push(result);
    if (isRefusal(result)) continue;
    seen.set(report.digest, result);
    if (result.outcome === "known") continue;
    journals.set(name, { ...report, uuid: "", reportedAt: now });
    for (const { month, after } of result.months) counts.set(`${licenseUuid} ${month}-01`, after);
  }
  return results;
}

function foresee(
  report: UsageReport,
  standing: Standing,
  { now, newJournal }: { readonly now: Date; readonly newJournal: boolean },
): ReportResult | Refusal {
  if (standing.known !== null) return toKnown(report, standing.known);
  const refusal = refuseOutOfTurn(report, standing, { now, newJournal });
  if (refusal !== undefined) return refusal;
  const marks = newJournal ? [...standing.marks, "new_journal"] : standing.marks;
  return { report, outcome: "foreseen", at: now, months: planMonths(report, standing), marks };
}
