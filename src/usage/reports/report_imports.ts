/**
 * Imports reports in the service, where clients are answered at the same time: one report at a time, so that memory stays
 * bounded, and by a database of its own, because a large report takes longer than a statement of an operator may.
 */
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import { type Database, type DatabaseAddress, openDatabase } from "../../database/mod.ts";
import { createReportKeys } from "../../licensing/signed_licenses/mod.ts";
import {
  foreseeReports,
  type ImportOptions,
  importReport,
  NEEDS_REASON,
  type ReportResult,
} from "./import_report.ts";
import { parseReport } from "./parse_report.ts";

export type ReportImports = ReturnType<typeof createReportImports>;

interface ReportImportsOptions extends Pick<ImportOptions, "textBounds"> {
  /** Runs work when no other work runs, or returns false if there is too much of it. */
  readonly inTurn: (work: () => Promise<void>) => Promise<boolean>;
  readonly database: Database;
  readonly secrets: Pick<Secrets, "signer">;
}

export interface TakeOptions extends Omit<ImportOptions, "textBounds"> {
  /** Says what would change, and changes nothing. */
  readonly isDryRun: boolean;
}

/** A report of 100,000 events takes some two seconds. */
const POOL = { maxConnections: 1, deadlineMs: 20_000 };
const BUSY = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot import report: other reports are being imported; try again",
);

/** Opens the database for imports. It connects with the first import. */
export function openReportDatabase(
  address: DatabaseAddress,
  options: { readonly clock: Clock; readonly log: Log },
): Database {
  return openDatabase(address, { ...options, ...POOL });
}

/** Creates the imports of a process. */
export function createReportImports({ database, secrets, textBounds, inTurn }: ReportImportsOptions) {
  const keyOf = createReportKeys(secrets);

  /** Imports the report that `read` returns, or says what it would change. Refuses it if others take too long. */
  async function take(
    read: () => Promise<string | Refusal>,
    { isDryRun, ...options }: TakeOptions,
  ): Promise<ReportResult | Refusal> {
    if (options.newJournal && options.actor.reason === undefined) return NEEDS_REASON;
    let result: ReportResult | Refusal = BUSY;
    await inTurn(async () => {
      const text = await read();
      const report = isRefusal(text) ? text : await parseReport(text, keyOf);
      if (isRefusal(report)) result = report;
      else if (isDryRun) [result = BUSY] = await foreseeReports(database, [report], options);
      else result = await importReport(database, report, { ...options, textBounds });
    });
    return result;
  }

  return { take };
}
