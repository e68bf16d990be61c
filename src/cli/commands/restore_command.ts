/** `claviger restore`. */
import { pathInData } from "../../base/host/mod.ts";
import { counted } from "../../base/render_count.ts";
import { announceRestore } from "../../database/embedded/mod.ts";
import { migrations, nameOfDatabase } from "../../database/mod.ts";
import { checkBackupSchema, type ProvenBackup, restoreBackup } from "../../installation/backup/mod.ts";
import type { Config } from "../../installation/config/mod.ts";
import { keepSecret } from "../../installation/mod.ts";
import { modelsFolderOf } from "../../models/mod.ts";
import {
  createProgressLine,
  renderContents,
  renderOrigin,
  toBackupDocument,
  toSeconds,
} from "../backup_report.ts";
import { planSecret } from "../backup_secret.ts";
import { chooseNewest, isFolderOfBackups, showBackups } from "../choose_backup.ts";
import { type CommandCall, command } from "../command.ts";
import { JSON_OPTIONS, PATH } from "../options.ts";
import { flag, option, type ValuesOf } from "../parameter.ts";
import { reportMissing, withProven } from "../proven_backup.ts";
import { CommandRefused, orRefuse, readSettings, WrongUsage, withInstallation } from "../run.ts";
import { findBackupsFolder } from "../unit_settings.ts";

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
      PATH,
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
    const secret = plan.keep === undefined ? null : pathInData(config.dataDir, "secret");
    const name = file === "-" ? "standard input" : file;
    const restored = `Restored ${renderContents(sums)} from ${name}, ${renderOrigin({ head, sums })} (${seconds} s)`;
    const document = { file, seconds, secret_written_to: secret, next: advice, ...toBackupDocument(proven) };
    print.line(restored, document);
    if (secret !== null) print.line(`The secret is in ${secret}`);
    for (const line of advice) print.line(line);
    reportMissing(proven, print);
  });
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
