/** `claviger usage import`: reads the reports of machines without a network, and can sign the next license of the machine. */
import { resolve } from "node:path";
import { idRule } from "../../base/ids.ts";
import { readNamedFile } from "../../base/read_regular_file.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { GIVEN_FINGERPRINT } from "../../licensing/machines/mod.ts";
import {
  createLicenseSigner,
  createReportKeys,
  DAYS_BY_DEFAULT,
  SIGNED_DAYS,
} from "../../licensing/signed_licenses/mod.ts";
import {
  type ChangedMonth,
  createRefusedNumbers,
  describeOrigin,
  describeReport,
  foreseeReports,
  type ImportOptions,
  importReport,
  nothingImported,
  parseReport,
  REPORT_LIMIT_BYTES,
  type ReportResult,
  renderReport,
  type UsageReport,
} from "../../usage/mod.ts";
import { type DatabaseCall, databaseCommand } from "../command.ts";
import { openSigner } from "../export_license.ts";
import { renderFileFailure } from "../failures.ts";
import { announceNext, type NextFile, prepareNext, type Signed, signNext, UNASKED } from "../next_license.ts";
import { CONFIRMATION, PATH, REASON } from "../options.ts";
import { flag, option, requiredList } from "../parameter.ts";
import { renderRefusal } from "../remedies.ts";
import { CommandRefused, DoneInPart, endOnTheWay, openProvenSecrets } from "../run.ts";

/** The most files of one import, and the most bytes of all together: they are in memory at once. */
const MOST_FILES = 1_000;
const MOST_BYTES = 2 * REPORT_LIMIT_BYTES;

/** A report and the file that it comes from. */
interface ReadReport {
  readonly file: string;
  readonly report: UsageReport;
}

/** What became of a report, or would. */
interface Handled {
  readonly file: string;
  readonly result: ReportResult | Refusal;
}

export const importing = databaseCommand({
  name: "import",
  description: "import the reports of machines without a network, each exactly once",
  ifStopped: "the reports that are named above are imported",
  arguments: { files: requiredList("the reports, in any order", PATH) },
  options: {
    newJournal: flag("begin another journal of the machine with this report, whatever its number"),
    clockAhead: flag(
      "import a report that was made more than a day from now: it counts with the days that it has",
    ),
    licenseOut: option("then sign the next license of the machine, and write it to this new file", PATH, {
      as: "file",
    }),
    days: option(`with --license-out: how many days it is valid; ${DAYS_BY_DEFAULT}`, SIGNED_DAYS, {
      as: "n",
    }),
    fingerprint: option(
      "with --license-out: the fingerprint of the machine, which no report names",
      GIVEN_FINGERPRINT,
      {
        as: "text",
      },
    ),
    key: option("with --license-out: the key to sign for; by default the newest active one", idRule("key"), {
      as: "id",
    }),
    ...CONFIRMATION,
    ...REASON,
  },
  check({ files, newJournal, clockAhead, licenseOut, fingerprint, days, key }) {
    if (files.length > MOST_FILES) return `give at most ${MOST_FILES} files at once`;
    if ((newJournal || clockAhead) && files.length > 1)
      return "--new-journal and --clock-ahead take one file";
    if (licenseOut === undefined)
      return [fingerprint, days, key].some((given) => given !== undefined)
        ? "--fingerprint, --days and --key need --license-out"
        : undefined;
    return fingerprint === undefined ? "--license-out needs --fingerprint" : undefined;
  },
  async run({ files, newJournal, clockAhead, licenseOut, days, fingerprint, key, dryRun }, call) {
    const { config, database, actor, now, confirm, invocation } = call;
    const secrets = await openProvenSecrets(call);
    const read = await readReports(call, files, createReportKeys(secrets));
    const reports = read.map(({ report }) => report);
    const next =
      licenseOut === undefined || fingerprint === undefined
        ? undefined
        : await prepareNext(reports, {
            signer: createLicenseSigner({ ...config, database, secrets }),
            path: resolve(invocation.workingFolder, licenseOut),
            ...{ fingerprint, days, keyUuid: key, now },
          });
    const options = { actor, now, textBounds: config.textBounds, allowed: { newJournal, clockAhead } };
    const foreseen = (await foreseeReports(database, reports, options)).map((result, index) => ({
      file: read[index]?.file ?? "",
      result,
    }));
    const imports = foreseen.some(({ result }) => !isRefusal(result) && result.outcome === "foreseen");
    const refused = foreseen.filter(({ result }) => isRefusal(result)).length;
    // The customer gets the next license for all use until now.
    const signs = next !== undefined && refused === 0;
    const takesMore = signs && (await announceNext(call, next));
    if (dryRun) return finish(call, foreseen, { next, isDryRun: true });
    if (imports || takesMore) {
      if (invocation.isTerminal) announceReports(call, foreseen);
      if (next !== undefined && !signs)
        call.print.note(
          `No license will be signed, because ${refused} of ${counted(read.length, "report")} will be refused`,
        );
      await confirm(`${nameWork({ imports, signs })}? No command can undo this.`);
    }
    // Before the import: a secret that does not open the signing keys refuses all.
    const signer = signs ? await openSigner(call) : undefined;
    const { handled, failure } = await importAll(call, read, options);
    const isWhole = failure === undefined && handled.every(({ result }) => !isRefusal(result));
    const signed = next && isWhole ? await (signer ? signNext(call, next, signer) : UNASKED) : undefined;
    finish(call, handled, { next, signed, failure, of: read.length });
  },
});

/** Reads all files, and puts the reports of each machine into their order. */
async function readReports(
  { invocation, stopIfInterrupted }: DatabaseCall,
  files: readonly string[],
  keyOf: ReturnType<typeof createReportKeys>,
): Promise<ReadReport[]> {
  const read: ReadReport[] = [];
  let bytes = 0;
  for (const file of files) {
    stopIfInterrupted();
    const text = readText(invocation.workingFolder, file);
    bytes += text.length;
    if (bytes > MOST_BYTES)
      throw new CommandRefused(
        `Cannot import reports: the files have more than ${MOST_BYTES} bytes, so import some first; nothing was imported`,
      );
    const report = await parseReport(text, keyOf);
    if (isRefusal(report)) throw new CommandRefused(`${file}: ${nothingImported(report).sentence}`);
    read.push({ file, report });
  }
  const place = ({ licenseUuid, machine }: UsageReport) => `${licenseUuid} ${machine}`;
  return read.sort(({ report: one }, { report: other }) =>
    place(one) === place(other) ? one.number - other.number : place(one) < place(other) ? -1 : 1,
  );
}

function readText(workingFolder: string, file: string): string {
  try {
    // Some bytes more for the end of the line.
    return readNamedFile(resolve(workingFolder, file), REPORT_LIMIT_BYTES + 8);
  } catch (error) {
    throw new CommandRefused(`Cannot read ${file}: ${renderFileFailure(error)}; nothing was imported`);
  }
}

/** Says of each report what its import will change, or why it will be refused. */
function announceReports(call: DatabaseCall, foreseen: readonly Handled[]): void {
  for (const { file, result } of foreseen)
    if (isRefusal(result)) call.print.note(renderRefused(file, result));
    else show(call, { file, result }, foreseen.length);
}

function renderRefused(file: string, refusal: Refusal): string {
  return `${file}: ${renderRefusal(refusal)}`;
}

/** Names what a yes allows. */
function nameWork({ imports, signs }: { readonly imports: boolean; readonly signs: boolean }): string {
  if (!imports) return "Sign the license";
  return signs ? "Import what is named above, and sign the license" : "Import what is named above";
}

/** Imports the reports one after the other. Whatever ends it early, what was imported is known. */
async function importAll(
  call: DatabaseCall,
  read: readonly ReadReport[],
  options: Omit<ImportOptions, "refused">,
): Promise<{ readonly handled: readonly Handled[]; readonly failure?: unknown }> {
  const handled: Handled[] = [];
  const refused = createRefusedNumbers();
  try {
    for (const { file, report } of read) {
      call.stopIfInterrupted();
      const result = await importReport(call.database, report, { ...options, refused: refused.of(report) });
      if (isRefusal(result)) refused.add(report);
      else if (!call.print.isJson) show(call, { file, result }, read.length);
      handled.push({ file, result });
    }
  } catch (failure) {
    return { handled, failure };
  }
  return { handled };
}

/** Prints what became of all reports, and ends the command with the status that says it. */
function finish(
  call: DatabaseCall,
  handled: readonly Handled[],
  {
    next,
    signed,
    failure,
    isDryRun = false,
    of = handled.length,
  }: {
    readonly next: NextFile | undefined;
    readonly signed?: Signed | undefined;
    readonly failure?: unknown;
    readonly isDryRun?: boolean;
    readonly of?: number;
  },
): void {
  const { print, config } = call;
  const refused = handled.flatMap(({ file, result }) =>
    isRefusal(result) ? [{ file, refusal: result }] : [],
  );
  const done = handled.length - refused.length;
  const isAlone = of === 1;
  if (isDryRun && !print.isJson) for (const each of handled) show(call, each, of);
  if (print.isJson && (done > 0 || !isAlone || isDryRun))
    print.document({
      reports: handled.flatMap(({ file, result }) =>
        isRefusal(result) ? [] : [{ file, ...renderReport(result) }],
      ),
      refused: refused.map(({ file, refusal }) => ({
        file,
        code: refusal.code,
        error: renderRefusal(refusal),
      })),
      license: signed?.license ?? null,
      unwritten: signed?.unwritten ?? null,
    });
  const [only] = refused;
  if (only !== undefined && isAlone)
    throw new CommandRefused(`${only.file}: ${renderRefusal(nothingImported(only.refusal))}`);
  for (const { file, refusal } of refused) print.warn(renderRefused(file, refusal));
  if (failure !== undefined) {
    if (done === 0) throw failure;
    const count = `${done} of ${counted(of, "report")} ${done === 1 ? "is" : "are"} imported`;
    throw endOnTheWay(failure, {
      config,
      sentences: [`${count}: run the command again, which counts none twice`],
    });
  }
  if (signed?.why !== undefined) throw new DoneInPart(`The reports are imported, but ${signed.why}`);
  if (refused.length === 0) return;
  const count = `${refused.length} of ${counted(of, "report")}`;
  const unsigned = next === undefined ? "" : `, and no license ${isDryRun ? "would be" : "is"} signed`;
  if (done === 0)
    throw new CommandRefused(
      isDryRun
        ? `Would refuse ${count}: nothing would be imported`
        : `Refused ${count}: nothing was imported`,
    );
  throw new DoneInPart(
    isDryRun
      ? `Would refuse ${count}; the others would be imported${unsigned}`
      : `Refused ${count}; the others are imported${unsigned}`,
  );
}

/** Shows what became of a report, and the use of each month before and after. A refusal is shown elsewhere. */
function show({ print }: DatabaseCall, { file, result }: Handled, of: number): void {
  if (isRefusal(result)) return;
  print.line(`${of > 1 ? `${file}: ` : ""}${describeReport(result)}`);
  print.line(`  ${describeOrigin(result)}`);
  for (const month of result.months) print.line(`  ${describeMonth(month)}`);
}

function describeMonth({ month, units, before, after }: ChangedMonth): string {
  const change = (name: "used" | "over") =>
    `${name} ${renderCount(before[name])} → ${renderCount(after[name])}`;
  const over = after.over > 0 ? `, ${change("over")}` : "";
  return `${month}: ${counted(units, "unit")}; ${change("used")}${over}`;
}
