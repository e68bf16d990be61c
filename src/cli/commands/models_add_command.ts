/** `claviger models add`. */
import { basename, resolve } from "node:path";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import type { Config } from "../../installation/config/mod.ts";
import { findPublicUrl } from "../../installation/mod.ts";
import { ACCOUNT, TIERS } from "../../licensing/mod.ts";
import { BucketFailure } from "../../models/bucket/mod.ts";
import {
  addModel,
  checkNewModel,
  checkShared,
  MODEL_RULES,
  modelsFolderOf,
  type NewModel,
  NO_PUBLIC_URL,
  parseNewModel,
  renderAddedModel,
  type StoredFile,
  storeBytes,
  storeFile,
  toMegabytes,
} from "../../models/mod.ts";
import { type CommandCall, command } from "../command.ts";
import { renderFileFailure } from "../failures.ts";
import { InputRefused, readWholeInput } from "../file_input.ts";
import { demandAccount } from "../find_named.ts";
import { JSON_OPTIONS, PATH } from "../options.ts";
import { anyText, option, required, type ValuesOf } from "../parameter.ts";
import { byteProgress } from "../progress_bar.ts";
import { renderRefusal } from "../remedies.ts";
import { CommandRefused, orRefuse, readSettings, WrongUsage, withDatabase } from "../run.ts";

const OPTIONS = {
  ...JSON_OPTIONS,
  name: required("the model's unique name", MODEL_RULES.name),
  version: required("its version", MODEL_RULES.version),
  type: required(MODEL_RULES.type.keywords.description, MODEL_RULES.type),
  nFeatures: required("input features", MODEL_RULES.nFeatures, { as: "n" }),
  nClasses: required("output classes", MODEL_RULES.nClasses, { as: "n" }),
  requiresLicense: required("the lowest tier that sees the model", TIERS, { as: "tier" }),
  paradigm: required("motor_imagery, p300, ssvep, erp or another", MODEL_RULES.paradigm),
  file: option("the model's file, - is standard input; the service serves a copy in the data folder", PATH, {
    as: "path",
  }),
  fileName: option("the name of the file for clients; by default the one of --file", MODEL_RULES.fileName, {
    as: "name",
  }),
  url: option("instead of --file: the address where clients download the file", MODEL_RULES.downloadUrl),
  sha256: option("the file's SHA-256, only with --url", MODEL_RULES.checksum, { as: "hex" }),
  sizeMb: option("the file's size in megabytes; by default the size of --file", MODEL_RULES.sizeMb, {
    as: "n",
  }),
  metadata: option("a JSON object, shown in the list", anyText, { as: "json", default: "{}" }),
  owner: option("show the model only to keys of this account, by its id or e-mail", ACCOUNT, {
    as: "account",
  }),
};

type AddOptions = ValuesOf<typeof OPTIONS>;

/** `models add`: with a file that the service then serves, or with the address of a file elsewhere. */
export const add = command({
  name: "add",
  description: "add a version of a model; the list then shows this version",
  options: OPTIONS,
  check({ file, fileName, url, sha256, sizeMb }) {
    const isHosted = file !== undefined;
    if (isHosted && (url ?? sha256) !== undefined) return "give either --file, or --url and --sha256";
    if (!isHosted && fileName !== undefined)
      return "--file-name needs --file: the name at another address is part of --url";
    if (!isHosted && [url, sha256, sizeMb].includes(undefined))
      return "give --file, or all of --url, --sha256 and --size-mb";
    return undefined;
  },
  run: (values, call) =>
    values.file === undefined ? addElsewhere(call, values) : addHosted(call, values, values.file),
});

/** Registers a model whose file is at an address that the operator gives. */
async function addElsewhere({ invocation, print }: CommandCall, options: AddOptions): Promise<void> {
  const config = readSettings(invocation, options);
  const model = parseModel(options, config, { downloadUrl: options.url, checksum: options.sha256 });
  await withDatabase(invocation, { config }, async ({ database, actor, now }) => {
    const owned = await withOwner(database, model, options);
    orRefuse(await addModel(database, owned, { actor, now }));
    print.fields(renderAddedModel(owned));
  });
}

/** Copies the file into the data folder, then registers it, so that no version is listed without its file. */
async function addHosted(
  { invocation, print }: CommandCall,
  options: AddOptions,
  file: string,
): Promise<void> {
  const settings = readSettings(invocation, options);
  if (findPublicUrl(settings) === undefined) {
    throw new CommandRefused(
      `Cannot add model: ${NO_PUBLIC_URL}, in the settings file that the service also reads`,
    );
  }
  // All fields are checked before a large file is copied.
  const planned = parseModel(options, settings, { downloadUrl: null, checksum: null });
  const isInput = file === "-";
  const source = isInput ? "standard input" : resolve(invocation.workingFolder, file);
  const fileName = options.fileName ?? basename(file);
  await withDatabase(invocation, { config: settings }, async (context) => {
    const { config, database, actor, now, stopIfInterrupted } = context;
    const owned = await withOwner(database, planned, options);
    const refused = (await checkShared(database, config)) ?? (await checkNewModel(database, owned));
    if (refused !== undefined) orRefuse(refused);
    const onProgress = byteProgress(invocation, stopIfInterrupted);
    const stored = await orFileRefusal(source, config, () =>
      isInput
        ? storeBytes(config, readWholeInput(invocation, config.dataDir), {
            now,
            sizeBytes: 0,
            onProgress: stopIfInterrupted,
          })
        : storeFile(config, source, { now, onProgress }),
    );
    const model = {
      ...owned,
      checksum: stored.sha256,
      hostedBytes: stored.sizeBytes,
      fileName: MODEL_RULES.fileName.parse(fileName),
      sizeMb: options.sizeMb || toMegabytes(stored.sizeBytes),
    };
    orRefuse(await addModel(database, model, { actor, now }));
    print.fields(renderAddedModel(model));
  });
}

/** Runs the copy of a model's file, and explains its errors. */
async function orFileRefusal(
  source: string,
  config: Config,
  copy: () => Promise<StoredFile | Refusal>,
): Promise<StoredFile> {
  try {
    return orRefuse(await copy());
  } catch (error) {
    if (error instanceof CommandRefused) throw error;
    if (error instanceof InputRefused || error instanceof BucketFailure)
      throw new CommandRefused(`Cannot add model: ${error.message}`);
    // The error names the path of the operator's file; every other error comes from the folder of the models.
    const isSource = error instanceof Error && "path" in error && error.path === source;
    const where = isSource ? source : `the folder ${modelsFolderOf(config)}`;
    throw new CommandRefused(`Cannot add model: ${where}: ${renderFileFailure(error)}`, { cause: error });
  }
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
  return { ...model, ownerUuid: (await demandAccount(database, owner, "add model")).uuid };
}

function parseMetadata(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new WrongUsage("Cannot add model: --metadata must be a JSON object");
  }
}
