/**
 * Imports reports in the service, where clients are answered at the same time: one report at a time, so that memory stays
 * bounded, and by a database of its own, because a large report takes longer than a statement of an operator may. A report is
 * read before its turn, because its sender may be slow; it takes room for its bytes before that.
 */
import { nameOfActor } from "../../audit/mod.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { ByteRoom } from "../../base/rate_limits/mod.ts";
import { addToRefusal, isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { redactKeys, type Secrets } from "../../base/secrets/mod.ts";
import { type Database, type DatabaseAddress, openDatabase } from "../../database/mod.ts";
import {
  createReportKeys,
  type ExportRequest,
  type ForeseenLicense,
  type LicenseSigner,
  type SignedLicense,
} from "../../licensing/signed_licenses/mod.ts";
import { toFailure } from "../../wire/mod.ts";
import { foreseeReports, type ImportOptions, importReport, type ReportResult } from "./import_report.ts";
import { parseReport, type UsageReport } from "./parse_report.ts";
import { REPORT_LIMIT_BYTES } from "./verify_report.ts";

export type ReportImports = ReturnType<typeof createReportImports>;

interface ReportImportsOptions extends Pick<ImportOptions, "textBounds"> {
  /** Runs work when no other work runs, or returns false if there is too much of it. */
  readonly inTurn: (work: () => Promise<void>) => Promise<boolean>;
  readonly database: Database;
  readonly log: Log;
  readonly secrets: Pick<Secrets, "signer">;
  readonly licenseSigner: Pick<LicenseSigner, "export" | "foreseeNext">;
}

/** The license that is to be signed after the import, for the machine of the report. */
interface NextRequest extends Pick<ExportRequest, "days" | "restriction"> {
  readonly fingerprint: string;
  /** By default the newest active one of the license. */
  readonly keyUuid?: string | undefined;
  /** Refuses what the door does not allow the actor. */
  readonly refuse?: (foreseen: ForeseenLicense) => Refusal | undefined;
}

export interface TakeOptions extends Omit<ImportOptions, "textBounds" | "refused"> {
  /** Says what would change, and changes nothing. */
  readonly isDryRun: boolean;
  readonly next?: NextRequest | undefined;
}

/** What became of a report, and of the next license of its machine if it was asked for. */
export interface Taken {
  readonly result: ReportResult;
  readonly foreseen?: ForeseenLicense;
  /** The license, or why it was refused after the import. */
  readonly signed?: SignedLicense | Refusal;
}

/** A report of 100,000 events takes some two seconds. */
const POOL = { maxConnections: 1, deadlineMs: 20_000 };
const BUSY = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot import report: other reports are being imported; try again",
);
/** Two of the largest reports at once, one of a sender. */
const ROOM = { perSender: REPORT_LIMIT_BYTES + 1, inAll: 2 * (REPORT_LIMIT_BYTES + 1) };
const NO_ROOM = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot import report: there is no room for another report now; try again",
);
const TOO_MANY = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Cannot import report: you are sending others at the same time; send one after the other",
  { retryAfterSeconds: 5 },
);

/** Opens the database for imports. It connects with the first import. */
export function openReportDatabase(
  address: DatabaseAddress,
  options: { readonly clock: Clock; readonly log: Log },
): Database {
  return openDatabase(address, { ...options, ...POOL });
}

/** Says that a refusal left everything as it was. */
export function nothingImported(refusal: Refusal): Refusal {
  return addToRefusal(refusal, "nothing was imported");
}

/** Creates the imports of a process. */
export function createReportImports(options: ReportImportsOptions) {
  const { database, log, secrets, textBounds, inTurn, licenseSigner } = options;
  const keyOf = createReportKeys(secrets);
  const room = new ByteRoom(ROOM);

  /** Takes room for a report of so many bytes, before it is read. Returns the function that gives the room back. */
  function takeRoom({ actor }: Pick<ImportOptions, "actor">, bytes: number): (() => void) | Refusal {
    const leave = room.take(nameOfActor(actor), bytes);
    if (typeof leave === "function") return leave;
    return nothingImported(leave === "sender full" ? TOO_MANY : NO_ROOM);
  }

  /**
   * Imports a report, or says what it would change, and then signs the next license of its machine if `next` asks for one.
   * Refuses the report if others take too long. What a read can tell of the license is checked before the import.
   */
  async function take(text: string, options: TakeOptions): Promise<Taken | Refusal> {
    let taken: Taken | Refusal = BUSY;
    await inTurn(async () => {
      const report = await parseReport(text, keyOf);
      taken = isRefusal(report) ? report : await takeParsed(report, options);
    });
    return isRefusal(taken) ? nothingImported(taken) : taken;
  }

  async function takeParsed(
    report: UsageReport,
    { isDryRun, next, ...options }: TakeOptions,
  ): Promise<Taken | Refusal> {
    const foreseen = next && (await foresee(report, next, options));
    if (isRefusal(foreseen)) return foreseen;
    if (isDryRun) {
      const [result = BUSY] = await foreseeReports(database, [report], options);
      return isRefusal(result) ? result : { result, ...(foreseen && { foreseen }) };
    }
    const result = await importReport(database, report, { ...options, textBounds });
    if (isRefusal(result)) return result;
    return foreseen === undefined
      ? { result }
      : { result, foreseen, signed: await sign({ ...options, ...next, keyUuid: foreseen.keyUuid }) };
  }

  async function foresee(
    { licenseUuid, machine }: UsageReport,
    { refuse: refuseForeseen, ...next }: NextRequest,
    { now }: Pick<ImportOptions, "now">,
  ): Promise<ForeseenLicense | Refusal> {
    const foreseen = await licenseSigner.foreseeNext({
      ...next,
      machine: { licenseUuid, hash: machine },
      now,
    });
    return isRefusal(foreseen) ? foreseen : (refuseForeseen?.(foreseen) ?? foreseen);
  }

  /** Signs the license. The report is imported, so the answer must say so whatever happens to the license. */
  async function sign(request: ExportRequest): Promise<SignedLicense | Refusal> {
    try {
      return await licenseSigner.export(request);
    } catch (error) {
      const failure = toFailure(error);
      if (failure.code !== "SERVICE_UNAVAILABLE")
        log.error("The license after an import could not be signed", { reason: redactKeys(String(error)) });
      return failure;
    }
  }

  return { takeRoom, take };
}
