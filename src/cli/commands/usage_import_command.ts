/** `claviger usage import`: reads the reports of machines without a network, and can sign the next license of the machine. */
import { existsSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { idRule, parseId, toId } from "../../base/ids.ts";
import { readNamedFile } from "../../base/read_regular_file.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { createMachineNames, FINGERPRINT } from "../../licensing/machines/mod.ts";
import { findLicense } from "../../licensing/mod.ts";
import { createReportKeys, SIGNED_DAYS, USUAL_EXPORT_DAYS } from "../../licensing/signed_licenses/mod.ts";
import {
  type ChangedMonth,
  describeReport,
  foreseeReports,
  importReport,
  parseReport,
  REPORT_LIMIT_BYTES,
  type ReportResult,
  renderReport,
  type UsageReport,
} from "../../usage/mod.ts";
import { type DatabaseCall, databaseCommand } from "../command.ts";
import { exportLicense } from "../export_license.ts";
import { noteExported } from "../export_notes.ts";
import { renderFileFailure } from "../failures.ts";
import { CONFIRMATION, PATH, REASON } from "../options.ts";
import { flag, option, requiredList } from "../parameter.ts";
import { renderRefusal } from "../remedies.ts";
import { CommandRefused, DoneInPart, openProvenSecrets, orRefuse } from "../run.ts";

/** The most files of one import, and the most bytes of all together: they are in memory at once. */
const MOST_FILES = 1_000;
const MOST_BYTES = 2 * REPORT_LIMIT_BYTES;

/** A report and the file that it comes from. */
interface ReadReport {
  readonly file: string;
  readonly report: UsageReport;
}

export const importing = databaseCommand({
  name: "import",
  description: "import the reports of machines without a network, each exactly once",
  ifStopped: "the reports that are named above are imported",
  arguments: { files: requiredList("the reports, in any order", PATH) },
  options: {
    newJournal: flag("begin another journal of the machine with this report, whatever its number"),
    licenseOut: option("then sign the next license of the machine, and write it to this new file", PATH, {
      as: "file",
    }),
    days: option(
      `with --license-out: how many days it is valid; by default ${USUAL_EXPORT_DAYS}, or the offline days of the license if these are fewer`,
      SIGNED_DAYS,
      { as: "n" },
    ),
    fingerprint: option(
      "with --license-out: the fingerprint of the machine, which no report names",
      FINGERPRINT,
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
  check({ files, newJournal, reason, licenseOut, fingerprint, days, key, dryRun }) {
    if (files.length > MOST_FILES) return `give at most ${MOST_FILES} files at once`;
    if (newJournal && (files.length > 1 || reason === undefined))
      return "--new-journal takes one file, and needs --reason";
    if (licenseOut === undefined)
      return [fingerprint, days, key].some((given) => given !== undefined)
        ? "--fingerprint, --days and --key need --license-out"
        : undefined;
    if (dryRun) return "--license-out does not go with --dry-run";
    return fingerprint === undefined ? "--license-out needs --fingerprint" : undefined;
  },
  async run({ files, newJournal, licenseOut, days, fingerprint, key, dryRun }, call) {
    const { config, database, actor, now, print, confirm, stopIfInterrupted, invocation } = call;
    const secrets = await openProvenSecrets(call);
    const read = await readReports(call, files, createReportKeys(secrets));
    const reports = read.map(({ report }) => report);
    const path = licenseOut && resolve(invocation.workingFolder, licenseOut);
    const keyUuid =
      path &&
      (await chooseKey(call, reports, { path, fingerprint, key, nameMachine: createMachineNames(secrets) }));
    const foreseen = await foreseeReports(database, reports, { now, newJournal });
    const options = { actor, now, textBounds: config.textBounds, newJournal };
    const results: (ReportResult | undefined)[] = [];
    if (!dryRun && foreseen.some((each) => !isRefusal(each) && each.outcome === "foreseen")) {
      if (invocation.isTerminal) for (const each of foreseen) if (!isRefusal(each)) show(call, each);
      await confirm("Import what is named above? No command can undo this.");
    }
    for (const [index, { file, report }] of read.entries()) {
      stopIfInterrupted();
      const result = dryRun ? foreseen[index] : await importReport(database, report, options);
      if (result === undefined) continue;
      if (isRefusal(result)) {
        if (read.length === 1) orRefuse(result);
        print.warn(`${file}: ${renderRefusal(result)}`);
        results.push(undefined);
      } else {
        results.push(result);
        if (!print.isJson) show(call, result);
      }
    }
    const refused = results.filter((result) => result === undefined).length;
    const exported =
      path && keyUuid && refused === 0
        ? await signNext(call, { keyUuid, days, fingerprint, path })
        : undefined;
    if (print.isJson)
      print.document({
        reports: results.flatMap((result, index) =>
          result === undefined ? [] : [{ file: read[index]?.file, ...renderReport(result) }],
        ),
        license: exported ?? null,
      });
    if (refused === 0) return;
    const count = `${refused} of ${counted(read.length, "report")}`;
    if (dryRun) throw new CommandRefused(`Would refuse ${count}`);
    if (refused === read.length) throw new CommandRefused(`Refused ${count}: nothing was imported`);
    throw new DoneInPart(`Refused ${count}; the others are imported`);
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
        `Cannot import reports: the files have more than ${MOST_BYTES} bytes; import some first`,
      );
    const report = await parseReport(text, keyOf);
    if (isRefusal(report)) throw new CommandRefused(`${file}: ${report.sentence}`);
    read.push({ file, report });
  }
  const place = ({ licenseUuid, machine }: UsageReport) => `${licenseUuid} ${machine}`;
  return read.sort(({ report: one }, { report: other }) =>
    place(one) === place(other) ? one.number - other.number : place(one) < place(other) ? -1 : 1,
  );
}

function readText(workingFolder: string, file: string): string {
  try {
    // One byte more for the newline.
    return readNamedFile(resolve(workingFolder, file), REPORT_LIMIT_BYTES + 1);
  } catch (error) {
    throw new CommandRefused(`Cannot read ${file}: ${renderFileFailure(error)}`);
  }
}

/** Chooses the key for the next license of the one machine of the reports, and checks what can be checked before the import. */
async function chooseKey(
  { database, now }: DatabaseCall,
  [report, ...more]: readonly UsageReport[],
  {
    path,
    fingerprint = "",
    key,
    nameMachine,
  }: {
    readonly path: string;
    readonly fingerprint: string | undefined;
    readonly key: string | undefined;
    readonly nameMachine: ReturnType<typeof createMachineNames>;
  },
): Promise<string | undefined> {
  if (report === undefined) return undefined;
  const { licenseUuid, machine } = report;
  const cannot = (why: string) =>
    new CommandRefused(`Cannot sign the next license: ${why}; nothing was imported`);
  if (more.some((each) => each.licenseUuid !== licenseUuid || each.machine !== machine))
    throw cannot("the reports are of several machines");
  if (nameMachine(licenseUuid, fingerprint).hash !== machine)
    throw cannot("the fingerprint is not that of the machine of the report");
  if (existsSync(path)) throw cannot(`${path} exists`);
  const { keys = [] } = (await findLicense(database, licenseUuid, { now })) ?? {};
  const chosen = keys.find(({ id, state }) =>
    key === undefined ? state === "active" : id === toId("key", key),
  );
  if (chosen === undefined)
    throw cannot(key === undefined ? "no key of the license is active" : "the key is not one of the license");
  return parseId("key", chosen.id);
}

/** Signs the next license and writes its file. The reports are imported already. */
async function signNext(
  call: DatabaseCall,
  {
    path,
    ...request
  }: {
    readonly path: string;
    readonly keyUuid: string;
    readonly days: number | undefined;
    readonly fingerprint: string | undefined;
  },
) {
  try {
    const { file, ...exported } = await exportLicense(call, request);
    writeFileSync(path, file, { flag: "wx", mode: 0o600, flush: true });
    call.print.line(`Wrote the next license of the machine to ${path}`);
    noteExported(call.print, { file, ...exported });
    return { path, kid: exported.kid, jti: exported.jti, expires_at: exported.expires_at };
  } catch (error) {
    const why = error instanceof CommandRefused ? error.message : renderFileFailure(error);
    throw new DoneInPart(`The reports are imported, but no license was written: ${why}`);
  }
}

/** Shows what became of a report, and the use of each month before and after. */
function show({ print }: DatabaseCall, result: ReportResult): void {
  print.line(describeReport(result));
  for (const month of result.months) print.line(`  ${describeMonth(month)}`);
}

function describeMonth({ month, units, before, after }: ChangedMonth): string {
  const change = (name: "used" | "over") =>
    `${name} ${renderCount(before[name])} → ${renderCount(after[name])}`;
  const over = after.over > 0 ? `, ${change("over")}` : "";
  return `${month}: ${counted(units, "unit")}; ${change("used")}${over}`;
}
