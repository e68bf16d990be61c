/** `claviger backup`. */
import { resolve } from "node:path";
import packageJson from "../../../package.json" with { type: "json" };
import { counted } from "../../base/render_count.ts";
import { migrations } from "../../database/mod.ts";
import {
  addBackup,
  type Backup,
  type FolderBackup,
  KEEP_RULE,
  writeBackup,
} from "../../installation/backup/mod.ts";
import { modelsFolderOf } from "../../models/mod.ts";
import {
  createProgressLine,
  renderContents,
  renderLeftOut,
  renderMissing,
  renderOrigin,
  toBackupDocument,
  toSeconds,
  toSize,
} from "../backup_report.ts";
import { demandSecret } from "../backup_secret.ts";
import { chooseNewest, isFolderOfBackups } from "../choose_backup.ts";
import { command } from "../command.ts";
import type { Invocation } from "../invocation.ts";
import { JSON_OPTIONS, PATH } from "../options.ts";
import { flag, option, required, type ValuesOf } from "../parameter.ts";
import { createPrinter, type Printer } from "../print.ts";
import { reportMissing, withProven } from "../proven_backup.ts";
import { CommandRefused, DoneInPart, orRefuse, readSettings, WrongUsage, withInstallation } from "../run.ts";

const BACKUP_OPTIONS = {
  ...JSON_OPTIONS,
  withSecret: flag("put the root secret into the file; anyone who can read the file then has the secret"),
  withModels: flag("put the hosted model files into the file"),
  force: flag("replace the file if it exists"),
  keep: option(
    "in a folder: afterwards remove the backups of this installation that are not the newest ones of these last hours (h), days (d) and weeks (w, from Monday; all UTC)",
    KEEP_RULE,
    { as: "rule", conflicts: ["withModels", "force"] },
  ),
  intoSharedFolder: flag(
    "in a folder: accept this installation beside others, whose backups the folder has; needed only once",
    { conflicts: ["withModels", "force"] },
  ),
  verify: flag("save nothing: read a backup to its end and verify it, without a database", {
    conflicts: ["withSecret", "withModels", "force", "keep", "intoSharedFolder"],
  }),
};

export const backup = command({
  name: "backup",
  description: "save everything and verify it, while the service runs or is stopped",
  arguments: {
    file: required(
      "the file to write, such as claviger.tar.zst; or the folder, such as backups/, that gets one more backup and keeps the model files of all; - is standard output, and standard input with --verify",
      PATH,
    ),
  },
  options: BACKUP_OPTIONS,
  run: ({ file, ...options }, { invocation, print }) =>
    options.verify ? verify(invocation, file, print) : backUp(invocation, file, options),
});

async function backUp(
  invocation: Invocation,
  file: string,
  options: ValuesOf<typeof BACKUP_OPTIONS>,
): Promise<void> {
  const { clock, workingFolder, columns, platform } = invocation;
  if (file === "-" && columns !== undefined)
    throw new CommandRefused("Cannot write a backup to a terminal: name a file, or pipe it to a program");
  const settings = readSettings(invocation, options);
  const secret = options.withSecret ? demandSecret(settings) : undefined;
  const path = file === "-" ? file : resolve(workingFolder, file);
  const isFolder = isFolderOfBackups(invocation, file);
  const isForFolder = options.keep !== undefined || options.intoSharedFolder;
  if (isFolder ? options.withModels || options.force : isForFolder) {
    throw new WrongUsage(
      "Cannot back up: --keep and --into-shared-folder are for a folder, such as backups/; --with-models and --force " +
        "are for a single file",
    );
  }
  const beganMs = clock.monotonicMs();
  await withInstallation(invocation, { config: settings, create: false }, async (opened) => {
    const { config, address, stopIfInterrupted } = opened;
    const progress = createProgressLine(invocation, stopIfInterrupted);
    const common = {
      lock: platform.lockOpenFile,
      migrations,
      version: packageJson.version,
      brand: config.brand.name,
      clock,
      secret: secret?.text,
      watch: progress,
    };
    const single = { path, replace: options.force, models: options.withModels ? config : undefined };
    const { keep, intoSharedFolder } = options;
    const many = { folder: path, models: config, keep, intoSharedFolder, tryLock: platform.tryLock };
    const writing = isFolder
      ? addBackup(address, { ...common, ...many })
      : writeBackup(address, { ...common, ...single });
    const outcome: Backup & Partial<FolderBackup> = orRefuse(await writing.finally(progress.clear));
    const { head, sums, bytes, sha256, isVerified, notNoted, path: written = file, removed } = outcome;
    const seconds = toSeconds(clock.monotonicMs() - beganMs);
    // With `-`, standard output has the backup itself.
    const print = createPrinter(
      file === "-" ? { ...invocation, out: invocation.err } : invocation,
      options.json,
    );
    const name = file === "-" ? "standard output" : written;
    const saved = isVerified ? "Saved and verified" : "Saved";
    print.line(`${saved} ${renderContents(sums)} to ${name} (${toSize(bytes)}, ${seconds} s)`, {
      file: written,
      bytes,
      sha256,
      seconds,
      verified: isVerified,
      ...toBackupDocument({ head, sums }),
      removed_backups: removed?.backups,
      removed_models: removed?.models,
    });
    if (notNoted !== undefined)
      print.warn(`The database could not note that this backup was taken: ${notNoted}`);
    if (removed !== undefined) reportRemoved(removed, print);
    const missing = head.missing_models ?? [];
    for (const model of missing) print.warn(renderMissing(model));
    print.line(renderLeftOut(outcome, config, isFolder ? modelsFolderOf({ dataDir: path }) : undefined));
    if (missing.length > 0) {
      throw new DoneInPart(
        `The database is ${saved.toLowerCase()}, but ${missing.length} of ${counted(outcome.modelFiles, "model file")} ` +
          `could not be: ${REPAIR_MODELS}`,
      );
    }
  });
}

const REPAIR_MODELS =
  "put the good files back, or add the models again under another version; `claviger models verify` checks all files";

function reportRemoved(
  { backups, models, lastWhole, warnings }: FolderBackup["removed"],
  print: Printer,
): void {
  if (backups + models > 0)
    print.line(`Removed ${counted(backups, "earlier backup")} and ${counted(models, "model file")}`);
  if (lastWhole !== undefined)
    print.line(`Kept ${lastWhole} beyond the rule, because it is the last one with every model file`);
  for (const warning of warnings) print.warn(warning);
}

async function verify(invocation: Invocation, given: string, print: Printer): Promise<void> {
  const file = isFolderOfBackups(invocation, given) ? await chooseNewest(invocation, given) : given;
  await withProven(invocation, file, async (proven) => {
    const missing = proven.head.missing_models ?? [];
    const [name, state] = [file === "-" ? "standard input" : file, missing.length > 0 ? "intact" : "whole"];
    print.line(`${name} is ${state}: ${renderContents(proven.sums)}, ${renderOrigin(proven)}`, {
      file,
      whole: missing.length === 0,
      ...toBackupDocument(proven),
    });
    reportMissing(proven, print);
  });
}
