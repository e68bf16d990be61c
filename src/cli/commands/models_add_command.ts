/** `claviger models add`. */
import { basename, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Config } from "../../config/mod.ts";
import type { Database } from "../../database/mod.ts";
import { TIERS, type Tier } from "../../licensing/mod.ts";
import {
  addModel,
  checkNewModel,
  isFileName,
  modelsFolderOf,
  type NewModel,
  parseNewModel,
  renderAddedModel,
  type StoredFile,
  storeBytes,
  storeFile,
  toMegabytes,
} from "../../models/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { renderFileFailure } from "../failures.ts";
import { InputRefused, readWholeInput } from "../file_input.ts";
import type { Invocation } from "../invocation.ts";
import {
  accountOption,
  type JsonOptions,
  numberOption,
  wholeNumberOption,
  withJsonOptions,
  withWords,
} from "../options.ts";
import { printFields, printJson } from "../print.ts";
import { byteProgress } from "../progress.ts";
import { renderRefusal } from "../remedies.ts";
import { CommandRefused, orRefuse, readSettings, WrongUsage, withDatabase } from "../run.ts";
import { findAccountBy } from "./accounts_commands.ts";

/** Adds `models add`: with a file that the service then serves, or with the address of a file elsewhere. */
export function addModelsAdd(models: Command, invocation: Invocation): void {
  const adding = withJsonOptions(models.command("add"))
    .description("add a version of a model; the list then shows this version")
    .requiredOption("--name <name>", "the model's unique name")
    .requiredOption("--version <version>", "its version")
    .requiredOption("--type <type>", "SvcLDA, SvcQDA or SvcProbit; another brand has its own prefix")
    .requiredOption("--n-features <n>", "input features", wholeNumberOption(1))
    .requiredOption("--n-classes <n>", "output classes", wholeNumberOption(2))
    .addOption(
      withWords(
        new Option("--requires-license <tier>", "the lowest tier that sees the model"),
        TIERS,
      ).makeOptionMandatory(),
    )
    .requiredOption("--paradigm <paradigm>", "motor_imagery, p300, ssvep, erp or another")
    .option(
      "--file <path>",
      "the model's file, - is standard input; the service serves a copy in the data folder",
    )
    .option(
      "--file-name <name>",
      "the name of the file for clients; by default the one of --file",
      fileNameOption,
    )
    .option("--url <url>", "instead of --file: the address where clients download the file")
    .option("--sha256 <hex>", "the file's SHA-256, only with --url")
    .option("--size-mb <n>", "the file's size in megabytes; by default the size of --file", numberOption)
    .option("--metadata <json>", "a JSON object, shown in the list", "{}")
    .option(
      "--owner <account>",
      "show the model only to keys of this account, by its id or e-mail",
      accountOption,
    )
    .action((options: AddOptions) => {
      const isHosted = options.file !== undefined;
      if (isHosted && (options.url ?? options.sha256) !== undefined) {
        adding.error("error: give either --file, or --url and --sha256");
      }
      if (!isHosted && options.fileName !== undefined) {
        adding.error("error: --file-name needs --file: the name at another address is part of --url");
      }
      if (!isHosted && [options.url, options.sha256, options.sizeMb].includes(undefined)) {
        adding.error("error: give --file, or all of --url, --sha256 and --size-mb");
      }
      return isHosted ? addHosted(invocation, options, options.file) : addElsewhere(invocation, options);
    });
}

interface AddOptions extends JsonOptions {
  readonly name: string;
  readonly version: string;
  readonly type: string;
  readonly nFeatures: number;
  readonly nClasses: number;
  readonly requiresLicense: Tier;
  readonly paradigm: string;
  readonly file?: string;
  readonly fileName?: string;
  readonly url?: string;
  readonly sha256?: string;
  readonly sizeMb?: number;
  readonly metadata: string;
  readonly owner?: string;
}

/** Registers a model whose file is at an address that the operator gives. */
async function addElsewhere(invocation: Invocation, options: AddOptions): Promise<void> {
  const config = readSettings(invocation, options);
  const model = parseModel(options, config, { downloadUrl: options.url, checksum: options.sha256 });
  await withDatabase(invocation, { config }, async ({ database, actor, now }) => {
    const owned = await withOwner(database, model, options);
    orRefuse(await addModel(database, owned, { actor, now }));
    showAdded(invocation, options, owned);
  });
}

/** Copies the file into the data folder, then registers it, so that no version is listed without its file. */
async function addHosted(invocation: Invocation, options: AddOptions, file: string): Promise<void> {
  const config = readSettings(invocation, options);
  if (config.publicUrl === undefined) {
    throw new CommandRefused(
      "Cannot add model: clients need an address to download its file; set CLAVIGER_PUBLIC_URL to the address " +
        "under which they reach the service, in the settings file that the service also reads",
    );
  }
  // All fields are checked before a large file is copied.
  const planned = parseModel(options, config, {
    downloadUrl: null,
    checksum: "0".repeat(64),
    hostedBytes: 0,
  });
  const isInput = file === "-";
  const source = isInput ? "standard input" : resolve(invocation.workingFolder, file);
  const fileName = options.fileName ?? basename(file);
  await withDatabase(invocation, { config }, async ({ database, actor, now, stopIfInterrupted }) => {
    const owned = await withOwner(database, planned, options);
    const refused = await checkNewModel(database, owned);
    if (refused !== undefined) orRefuse(refused);
    const show = byteProgress(invocation);
    const onProgress = (done: number, total: number) => {
      stopIfInterrupted();
      show(done, total);
    };
    const stored = await orFileRefusal(source, config.dataDir, () =>
      isInput
        ? storeBytes(config.dataDir, readWholeInput(invocation, config.dataDir), {
            now,
            sizeBytes: 0,
            onProgress: stopIfInterrupted,
          })
        : storeFile(config.dataDir, source, { now, onProgress }),
    );
    const model = {
      ...owned,
      checksum: stored.sha256,
      hostedBytes: stored.sizeBytes,
      fileName: isFileName(fileName) && fileName !== "-" ? fileName : undefined,
      sizeMb: options.sizeMb || toMegabytes(stored.sizeBytes),
    };
    orRefuse(await addModel(database, model, { actor, now }));
    showAdded(invocation, options, model);
  });
}

/** Runs the copy of a model's file, and explains its errors. */
async function orFileRefusal(
  source: string,
  dataDir: string,
  copy: () => Promise<StoredFile | Refusal>,
): Promise<StoredFile> {
  try {
    return orRefuse(await copy());
  } catch (error) {
    if (error instanceof InputRefused) throw new CommandRefused(`Cannot add model: ${error.message}`);
    if (error instanceof CommandRefused) throw error;
    // The error names the path of the operator's file; every other error comes from the folder of the models.
    const isSource = error instanceof Error && "path" in error && error.path === source;
    const where = isSource ? source : `the folder ${modelsFolderOf(dataDir)}`;
    throw new CommandRefused(`Cannot add model: ${where}: ${renderFileFailure(error)}`, { cause: error });
  }
}

function fileNameOption(text: string): string {
  if (isFileName(text) && text !== "-") return text;
  throw new InvalidArgumentError("It must be the name of a file, without a folder");
}

function parseModel(options: AddOptions, config: Config, source: object): NewModel {
  const { sizeMb = 0, metadata, owner } = options;
  const fields = { ...options, sizeMb, metadata: parseMetadata(metadata), ...source };
  // The owner is looked up later. Whether the model has an owner decides which tiers it may require.
  const model = parseNewModel(fields, config.brand, { hasOwner: owner !== undefined });
  if (isRefusal(model)) throw new WrongUsage(renderRefusal(model));
  return model;
}

async function withOwner(database: Database, model: NewModel, { owner }: AddOptions): Promise<NewModel> {
  if (owner === undefined) return model;
  return { ...model, ownerUuid: (await findAccountBy(database, owner, "add model")).uuid };
}

function showAdded(invocation: Invocation, options: JsonOptions, model: NewModel): void {
  const shown = renderAddedModel(model);
  if (options.json) printJson(invocation, shown);
  else printFields(invocation, shown);
}

function parseMetadata(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new WrongUsage("Cannot add model: --metadata must be a JSON object");
  }
}
