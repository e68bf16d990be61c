/** `claviger backup` and `claviger restore`. */
import { dirname, join, resolve } from "node:path";
import packageJson from "../../../package.json" with { type: "json" };
import { counted } from "../../base/render_count.ts";
import { announceRestore } from "../../database/embedded/mod.ts";
import { migrations, nameOfDatabase } from "../../database/mod.ts";
import {
  addBackup,
  type Backup,
  checkBackupSchema,
  type FolderBackup,
  KEEP_RULE,
  type ProvenBackup,
  restoreBackup,
  verifyBackup,
  writeBackup,
} from "../../installation/backup/mod.ts";
import type { Config } from "../../installation/config/mod.ts";
import { keepSecret } from "../../installation/mod.ts";
import { modelsFolderOf } from "../../models/mod.ts";
import {
  createProgressLine,
  describe,
  renderContents,
  renderLeftOut,
  renderMissing,
  renderOrigin,
  toSeconds,
  toSize,
} from "../backup_report.ts";
import { demandSecret, planSecret } from "../backup_secret.ts";
import { chooseNewest, isFolderOfBackups, showBackups } from "../choose_backup.ts";
import { type CommandCall, command } from "../command.ts";
import { withKeptInput } from "../file_input.ts";
import type { Invocation } from "../invocation.ts";
import { JSON_OPTIONS } from "../options.ts";
import { anyText, flag, option, required, type ValuesOf } from "../parameter.ts";
import { createPrinter, type Printer } from "../print.ts";
import { CommandRefused, DoneInPart, orRefuse, readSettings, WrongUsage, withInstallation } from "../run.ts";
import { findBackupsFolder } from "../unit_settings.ts";

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
      anyText,
    ),
  },
  options: BACKUP_OPTIONS,
  run: ({ file, ...options }, { invocation, print }) =>
    options.verify ? verify(invocation, file, print) : backUp(invocation, file, options),
});

const RESTORE_OPTIONS = {
  ...JSON_OPTIONS,
  newest: flag(
    "of a folder: restore the newest backup, unless another one has more keys or is of another installation",
  ),
  forgetSealed: flag(
    "leave out the repository token and the keys that sign licenses, because the secret that sealed them is lost",
  ),
};

export const restore = command({
  name: "restore",
  description: "load a backup into a new or empty database",
  arguments: {
    file: option(
      "the file that `claviger backup` wrote; - is standard input. A folder of backups is listed; without an argument, the one of claviger-backup.service",
      anyText,
    ),
  },
  options: RESTORE_OPTIONS,
  async run({ file: given, ...options }, call) {
    const { invocation, print } = call;
    const { newest } = options;
    const named = given ?? findBackupsFolder(invocation.env);
    if (named === undefined) {
      throw new WrongUsage(
        "Cannot restore: name a backup, or the folder that has the backups, such as backups/",
      );
    }
    const isFolder = isFolderOfBackups(invocation, named);
    if (newest && !isFolder)
      throw new WrongUsage("Cannot restore: --newest is for a folder, such as backups/");
    if (isFolder && !newest) return await showBackups(invocation, named, print);
    const file = newest ? await chooseNewest(invocation, named) : named;
    const config = readSettings(invocation, options, { inputFile: file });
    const beganMs = invocation.clock.monotonicMs();
    const takeBack =
      config.databaseUrl === undefined ? await announceRestore(config.dataDir, invocation) : undefined;
    try {
      await withProven(invocation, file, (proven) => load(call, proven, { config, file, beganMs, options }));
    } finally {
      await takeBack?.();
    }
  },
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
      ...describe({ head, sums }),
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
      ...describe(proven),
    });
    reportMissing(proven, print);
  });
}

interface LoadOptions {
  readonly config: Config;
  readonly file: string;
  readonly beganMs: number;
  readonly options: ValuesOf<typeof RESTORE_OPTIONS>;
}

async function load(
  { invocation, print }: CommandCall,
  proven: ProvenBackup,
  { config, file, beganMs, options }: LoadOptions,
): Promise<void> {
  const { clock, userName } = invocation;
  const { head, sums } = proven;
  const mismatch = checkBackupSchema(proven, migrations) ?? checkBrand(proven, config);
  if (mismatch !== undefined) throw new CommandRefused(mismatch);
  const plan = planSecret(proven, config, options);
  await withInstallation(invocation, { config, create: true, restores: true }, async (opened) => {
    if (opened.isServed) {
      throw new CommandRefused(
        `Cannot restore into ${config.dataDir}: a service runs there; stop it, or name an empty folder ` +
          "with --data-dir",
      );
    }
    const progress = createProgressLine(invocation, opened.stopIfInterrupted);
    const outcome = await restoreBackup(opened.address, {
      proven,
      migrations,
      withoutSealed: plan.withoutSealed,
      models: opened.config,
      place: config.databaseUrl === undefined ? config.dataDir : nameOfDatabase(config.databaseUrl),
      isExternal: config.databaseUrl !== undefined,
      note: opened.restoreNote,
      actor: { kind: "command", name: userName },
      clock,
      watch: progress,
      beforeCommit() {
        opened.stopIfInterrupted();
        if (plan.keep !== undefined) keepSecret(config.dataDir, `${plan.keep}\n`);
      },
    }).finally(progress.clear);
    const { disabledTokens } = orRefuse(outcome);
    const seconds = toSeconds(clock.monotonicMs() - beganMs);
    const advice = [...plan.advice, ...adviseModels(proven, config), ...adviseTokens(disabledTokens)];
    const secret = plan.keep === undefined ? null : join(config.dataDir, "secret");
    const name = file === "-" ? "standard input" : file;
    const restored = `Restored ${renderContents(sums)} from ${name}, ${renderOrigin({ head, sums })} (${seconds} s)`;
    const document = { file, seconds, secret_written_to: secret, next: advice, ...describe(proven) };
    print.line(restored, document);
    if (secret !== null) print.line(`The secret is in ${secret}`);
    for (const line of advice) print.line(line);
    reportMissing(proven, print);
  });
}

/** Names the model files that could not be saved when the backup was made; ends the command if there are any. */
function reportMissing({ name, head: { missing_models: missing = [] } }: ProvenBackup, print: Printer): void {
  if (missing.length === 0) return;
  for (const model of missing) print.warn(renderMissing(model));
  throw new DoneInPart(
    `${name} lacks ${counted(missing.length, "model file")}, which could not be saved when it was made: look for ` +
      "them in an earlier backup, or add the models again under another version",
  );
}

/** Verifies a backup and calls `work`, which can read it again: standard input is kept in a file until `work` ends. */
async function withProven(
  invocation: Invocation,
  file: string,
  work: (proven: ProvenBackup) => Promise<void>,
): Promise<void> {
  const prove = async (path: string, names: { readonly name?: string; readonly besideFolder?: string }) => {
    const progress = createProgressLine(invocation, () => {});
    await work(orRefuse(await verifyBackup(path, { ...progress, ...names }).finally(progress.clear)));
  };
  const path = resolve(invocation.workingFolder, file);
  await (file === "-"
    ? withKeptInput(invocation, (kept) => prove(kept, { name: "standard input" }))
    : prove(path, { besideFolder: modelsFolderOf({ dataDir: dirname(path) }) }));
}

/** Refuses a backup of another brand: keys begin with the brand, so the service would refuse every restored key. */
function checkBrand({ name, head }: ProvenBackup, config: Config): string | undefined {
  if (head.brand === config.brand.name) return undefined;
  return (
    `Cannot restore ${name}: its keys have the brand ${head.brand}, and this installation has the brand ` +
    `${config.brand.name}; set CLAVIGER_BRAND=${head.brand}`
  );
}

/** Tells the operator to copy the model files, if the database names files and the backup has none. */
function adviseModels({ head, sums }: ProvenBackup, config: Config): string[] {
  const files = sums.tables.find(({ name }) => name === "model_files")?.rows ?? 0;
  if (sums.models.length > 0 || files === 0) return [];
  if (config.modelsBucket !== undefined)
    return ["The model files stay in the bucket: run `claviger models verify`"];
  const where = head.beside === undefined ? "of the old data folder" : "beside the backup";
  return [
    `No model files were restored: copy the folder models ${where} to ${modelsFolderOf(config)}, and run ` +
      "`claviger models verify`",
  ];
}

/** Tells the operator that restored tokens are refused, and why. */
function adviseTokens(disabled: number): string[] {
  if (disabled === 0) return [];
  const [tokens, are] = [counted(disabled, "token"), disabled === 1 ? "is" : "are"];
  return [
    `${tokens} ${are} disabled, because a token may have been revoked or renewed after the backup was made: ` +
      "`claviger tokens list` shows them, and `claviger tokens resume NAME` lets one in again, with the secret that it " +
      "had in the backup",
  ];
}
