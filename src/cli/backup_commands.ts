/** `claviger backup` and `claviger restore`. */
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import {
  checkBackupSchema,
  type Progress,
  type ProvenBackup,
  restoreBackup,
  type Sums,
  verifyBackup,
  writeBackup,
} from "../backup/mod.ts";
import type { Config } from "../config.ts";
import { migrations } from "../database/mod.ts";
import { keepSecret, readSecretFile } from "../installation.ts";
import { modelsFolderOf } from "../models/mod.ts";
import { createSecrets, opensCanary, parseRootSecret, type RootSecret } from "../secrets/mod.ts";
import { type JsonOptions, withJson, withPlace } from "./options.ts";
import { printJson } from "./print.ts";
import { CommandRefused, orRefuse, readSettings, withInstallation } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

interface BackupFlags extends JsonOptions {
  readonly force: boolean;
  readonly withSecret: boolean;
  readonly withModels: boolean;
  readonly verify: boolean;
}

interface RestoreFlags extends JsonOptions {
  readonly forgetSealed: boolean;
}

export function addBackupCommands(program: Command, surroundings: Surroundings): void {
  withPlace(withJson(program.command("backup")))
    .description("save everything into one file, while serving or without a service")
    .argument("<file>", "the file to write, such as claviger.tar.zst; - is standard output")
    .option("--with-secret", "put the root secret into it: whoever reads the file then has it", false)
    .option("--with-models", "put the model files into it", false)
    .option("--force", "replace the file where there is one", false)
    .addOption(
      new Option("--verify", "read a backup through instead, without a database")
        .default(false)
        .conflicts(["withSecret", "withModels", "force"]),
    )
    .action((file: string, options: BackupFlags) =>
      options.verify ? verify(surroundings, file, options) : backUp(surroundings, file, options),
    );

  withPlace(withJson(program.command("restore")))
    .description("load a backup into an empty database, making it if need be")
    .argument("<file>", "what `claviger backup` wrote")
    .option(
      "--forget-sealed",
      "leave out the installer token: the secret that it is sealed with is lost",
      false,
    )
    .action((file: string, options: RestoreFlags) => restore(surroundings, file, options));
}

async function backUp(surroundings: Surroundings, file: string, options: BackupFlags): Promise<void> {
  const { clock, workingFolder } = surroundings;
  const config = readSettings(surroundings, options);
  const secret = options.withSecret ? demandSecret(config) : undefined;
  const path = file === "-" ? file : resolve(workingFolder, file);
  const beganMs = clock.monotonicMs();
  await withInstallation(surroundings, { config, create: false }, async ({ address, stopIfInterrupted }) => {
    const progress = createProgressLine(surroundings, stopIfInterrupted);
    const outcome = await writeBackup(address, {
      path,
      replace: options.force,
      migrations,
      version: packageJson.version,
      brand: config.brand.name,
      now: clock.now(),
      secret: secret?.text,
      modelsFolder: options.withModels ? modelsFolderOf(config.dataDir) : undefined,
      watch: progress,
    }).finally(progress.clear);
    const { head, sums, bytes, sha256 } = orRefuse(outcome);
    const seconds = toSeconds(clock.monotonicMs() - beganMs);
    // Standard output is the backup itself then.
    const to = file === "-" ? { ...surroundings, out: surroundings.err } : surroundings;
    if (options.json) {
      printJson(to, { file, bytes, sha256, seconds, ...describe({ head, sums }) });
    } else {
      const name = file === "-" ? "standard output" : file;
      to.out(`Saved ${renderContents(sums)} to ${name} (${toSize(bytes)}, ${seconds} s)\n`);
    }
  });
}

async function verify(surroundings: Surroundings, file: string, options: JsonOptions): Promise<void> {
  const proven = await prove(surroundings, file);
  if (options.json) printJson(surroundings, { file, whole: true, ...describe(proven) });
  else surroundings.out(`${file} is whole: ${renderContents(proven.sums)}, ${renderOrigin(proven)}\n`);
}

async function restore(surroundings: Surroundings, file: string, options: RestoreFlags): Promise<void> {
  const { clock, userName, out } = surroundings;
  const config = readSettings(surroundings, options);
  const beganMs = clock.monotonicMs();
  const proven = await prove(surroundings, file);
  const { head, sums } = proven;
  const misfit = checkBackupSchema(proven, migrations) ?? checkBrand(proven, config);
  if (misfit !== undefined) throw new CommandRefused(misfit);
  const plan = planSecret(proven, config, options);
  await withInstallation(surroundings, { config, create: true }, async (opened) => {
    if (opened.isServed) {
      throw new CommandRefused(
        `Cannot restore into ${config.dataDir}: a service runs there; stop it, or name an empty folder ` +
          "with --data-dir",
      );
    }
    const progress = createProgressLine(surroundings, opened.stopIfInterrupted);
    const refusal = await restoreBackup(opened.address, {
      proven,
      migrations,
      withoutSealed: plan.withoutSealed,
      dataDir: config.dataDir,
      place: placeOf(config),
      actor: { door: "command", name: userName },
      clock,
      log: opened.log,
      watch: progress,
      beforeCommit() {
        opened.stopIfInterrupted();
        if (plan.keep !== undefined) keepSecret(config.dataDir, `${plan.keep}\n`);
      },
    }).finally(progress.clear);
    if (refusal !== undefined) orRefuse(refusal);
    const seconds = toSeconds(clock.monotonicMs() - beganMs);
    const advice = [...plan.advice, ...adviseModels(proven, config)];
    const secret = plan.keep === undefined ? null : join(config.dataDir, "secret");
    if (options.json) {
      printJson(surroundings, {
        file,
        seconds,
        secret_written_to: secret,
        next: advice,
        ...describe(proven),
      });
      return;
    }
    out(`Restored ${renderContents(sums)} from ${file}, ${renderOrigin({ head })} (${seconds} s)\n`);
    if (secret !== null) out(`The secret is in ${secret}\n`);
    for (const line of advice) out(`${line}\n`);
  });
}

async function prove(surroundings: Surroundings, file: string): Promise<ProvenBackup> {
  if (file === "-") {
    throw new CommandRefused(
      "Cannot read a backup from standard input: it is read twice, so it must be a file",
    );
  }
  const progress = createProgressLine(surroundings, () => {});
  const path = resolve(surroundings.workingFolder, file);
  return orRefuse(await verifyBackup(path, progress).finally(progress.clear));
}

/** Keys begin with the brand: those of another would be refused by their form. */
function checkBrand({ path, head }: ProvenBackup, config: Config): string | undefined {
  if (head.brand === config.brand.name) return undefined;
  return (
    `Cannot restore ${path}: its keys are of the brand ${head.brand}, and this installation's is ` +
    `${config.brand.name}; set CLAVIGER_BRAND=${head.brand}`
  );
}

interface SecretPlan {
  /** The text to put into the data folder. */
  readonly keep?: string;
  readonly withoutSealed: boolean;
  /** What is left for the operator to do. */
  readonly advice: readonly string[];
}

/** Model files that the database knows and the backup does not hold. */
function adviseModels({ head, sums }: ProvenBackup, config: Config): string[] {
  const files = sums.tables.find(({ name }) => name === "model_files")?.rows ?? 0;
  if (head.models || files === 0) return [];
  return [
    "The backup holds no model files: copy the folder models of the old data folder into " +
      `${config.dataDir}, and see \`claviger models verify\``,
  ];
}

const NOTHING_TO_DO: SecretPlan = { withoutSealed: false, advice: [] };

/** Makes sure, before anything is touched, that what the backup has sealed can be opened afterwards. */
function planSecret(proven: ProvenBackup, config: Config, { forgetSealed }: RestoreFlags): SecretPlan {
  const { path, secret, canary } = proven;
  const present = findSecret(config);
  if (secret !== undefined) {
    const own = rootOf({ text: secret, source: path });
    if (present === undefined) {
      if (config.databaseUrl === undefined) return { ...NOTHING_TO_DO, keep: secret };
      const advice =
        `The database is external, so the service must be given the backup's secret: tar --zstd -xOf ` +
        `${path} secret prints it; put it into a file that CLAVIGER_SECRET_FILE names`;
      return { withoutSealed: false, advice: [advice] };
    }
    if (rootOf(present).equals(own)) return NOTHING_TO_DO;
    throw new CommandRefused(
      `Cannot restore ${path}: it brings its own secret, and ${present.source} is another; take that ` +
        "away first",
    );
  }
  if (forgetSealed) {
    return {
      withoutSealed: true,
      advice: ["There is no installer token: set one with `claviger installer set-token`"],
    };
  }
  if (canary === undefined) return NOTHING_TO_DO;
  if (present !== undefined && opensCanary(createSecrets(rootOf(present)), canary)) return NOTHING_TO_DO;
  const wrong = present === undefined ? "" : `, which that of ${present.source} is not`;
  const where =
    config.databaseUrl === undefined
      ? `put it into ${join(config.dataDir, "secret")} or name its file by CLAVIGER_SECRET_FILE`
      : "name its file by CLAVIGER_SECRET_FILE";
  throw new CommandRefused(
    `Cannot restore ${path}: it holds no secret, and what is sealed in it needs the secret of the ` +
      `installation that it was taken from${wrong}; ${where}, or leave out the installer token ` +
      "with --forget-sealed",
  );
}

interface FoundSecret {
  readonly text: string;
  readonly source: string;
}

/** The secret as text: the one that is configured, else the data folder's. */
function findSecret(config: Config): FoundSecret | undefined {
  if (config.secret !== undefined) return config.secret;
  if (config.databaseUrl !== undefined) return undefined;
  const source = join(config.dataDir, "secret");
  const text = orRefuse(readSecretFile(source));
  return text === undefined ? undefined : { text, source };
}

function demandSecret(config: Config): FoundSecret {
  const secret = findSecret(config);
  if (secret === undefined) {
    throw new CommandRefused(
      config.databaseUrl === undefined
        ? `Cannot back up the secret: there is none in ${config.dataDir}; start the service once to make it`
        : "Cannot back up the secret: none is given; name its file by CLAVIGER_SECRET_FILE",
    );
  }
  rootOf(secret);
  return secret;
}

function rootOf({ text, source }: FoundSecret): RootSecret {
  const parsed = parseRootSecret(text);
  if (parsed.ok) return parsed.rootSecret;
  throw new CommandRefused(`Cannot use the secret of ${source}: ${parsed.error.replace(/^[^:]*: /, "")}`);
}

function placeOf(config: Config): string {
  if (config.databaseUrl === undefined) return config.dataDir;
  const { host, pathname } = new URL(config.databaseUrl);
  return host + pathname;
}

/** One line on a terminal that says how far it is; none elsewhere. */
function createProgressLine({ isTerminal, clock, err }: Surroundings, stopIfInterrupted: () => void) {
  let shownMs = Number.NEGATIVE_INFINITY;
  return {
    onProgress({ doing, what, done, of }: Progress) {
      const nowMs = clock.monotonicMs();
      if (nowMs - shownMs < PROGRESS_INTERVAL_MS) return;
      shownMs = nowMs;
      stopIfInterrupted();
      if (!isTerminal) return;
      const total = of === undefined ? "" : ` of ${toCount(of)}`;
      err(`\r\u001b[K${doing} ${what}: ${toCount(done)}${total}`);
    },
    clear() {
      if (isTerminal && shownMs !== Number.NEGATIVE_INFINITY) err("\r\u001b[K");
    },
  };
}

const PROGRESS_INTERVAL_MS = 100;

function describe({ head, sums }: Pick<ProvenBackup, "head" | "sums">) {
  return {
    claviger: head.claviger,
    made_at: head.made_at,
    brand: head.brand,
    schema: head.migrations.length,
    with_secret: head.secret,
    with_models: head.models,
    tables: Object.fromEntries(sums.tables.map(({ name, rows }) => [name, rows])),
    models: sums.models.length,
  };
}

function renderContents({ tables, models }: Sums): string {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const files = models.length === 0 ? "" : ` and ${toCount(models.length)} model files`;
  return `${toCount(rows)} rows of ${tables.length} tables${files}`;
}

function renderOrigin({ head }: Pick<ProvenBackup, "head">): string {
  return `made ${head.made_at.slice(0, 19)}Z by Claviger ${head.claviger}, schema ${head.migrations.length}`;
}

function toCount(number: number): string {
  return number.toLocaleString("en-US");
}

function toSize(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function toSeconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}
