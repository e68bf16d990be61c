/** `claviger models …`: add, list and remove. */
import type { Command } from "commander";
import type { Tier } from "../licensing/mod.ts";
import { addModel, listAllModels, parseNewModel, removeModel } from "../models/mod.ts";
import {
  idOption,
  numberOption,
  type PlaceOptions,
  tierOption,
  wholeNumberOption,
  withJson,
  withPlace,
} from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { CommandRefused, orRefuse, withInstallation } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

type Json = PlaceOptions & { readonly json: boolean };

export function addModelsCommands(program: Command, surroundings: Surroundings): void {
  const models = program.command("models").description("the registry of pre-trained models");

  withPlace(withJson(models.command("add")))
    .description("add a version of a model: it becomes the one that is listed")
    .requiredOption("--name <name>", "the model's unique name")
    .requiredOption("--version <version>", "its version")
    .requiredOption("--type <type>", "SvcLDA, SvcQDA or SvcProbit, under the brand's prefix")
    .requiredOption("--n-features <n>", "input features", wholeNumberOption(1))
    .requiredOption("--n-classes <n>", "output classes", wholeNumberOption(2))
    .requiredOption("--requires-license <tier>", "the lowest tier that sees it", tierOption)
    .requiredOption("--paradigm <paradigm>", "motor_imagery, p300, ssvep, erp or another")
    .requiredOption("--url <url>", "where clients download it")
    .requiredOption("--sha256 <hex>", "the file's SHA-256")
    .requiredOption("--size-mb <n>", "the file's size in megabytes", numberOption)
    .option("--metadata <json>", "a JSON object, shown in the list", "{}")
    .option("--owner <id>", "the account whose keys alone see it", idOption("usr"))
    .action((options: AddOptions) => add(surroundings, options));

  withPlace(withJson(models.command("list")))
    .description("list all models")
    .action((options: Json) =>
      withInstallation(surroundings, options, async ({ database }) => {
        const rows = (await listAllModels(database)).map((model) => ({
          name: model.name,
          version: model.version,
          type: model.type,
          paradigm: model.paradigm,
          n_features: model.nFeatures,
          n_classes: model.nClasses,
          size_mb: model.sizeMb,
          requires_license: model.requiresLicense,
          owner: model.owner,
          ...(options.json && {
            download_url: model.downloadUrl,
            checksum: `sha256:${model.checksum}`,
            metadata: model.metadata,
          }),
        }));
        if (options.json) printJson(surroundings, rows);
        else printTable(surroundings, rows);
      }),
    );

  withPlace(withJson(models.command("remove")))
    .description("take a model off the list")
    .argument("<name>", "the model's name")
    .action((name: string, options: Json) =>
      withInstallation(surroundings, options, async ({ database, actor, now }) => {
        const { version } = orRefuse(await removeModel(database, name, { actor, now }));
        if (options.json) printJson(surroundings, { name, version, listed: false });
        else surroundings.out(`Removed ${name} ${version} from the list\n`);
      }),
    );
}

interface AddOptions extends Json {
  readonly name: string;
  readonly version: string;
  readonly type: string;
  readonly nFeatures: number;
  readonly nClasses: number;
  readonly requiresLicense: Tier;
  readonly paradigm: string;
  readonly url: string;
  readonly sha256: string;
  readonly sizeMb: number;
  readonly metadata: string;
  readonly owner?: string;
}

async function add(surroundings: Surroundings, options: AddOptions): Promise<void> {
  await withInstallation(surroundings, options, async ({ config, database, actor, now }) => {
    const fields = {
      ...options,
      downloadUrl: options.url,
      checksum: options.sha256,
      metadata: parseMetadata(options.metadata),
      ownerUuid: options.owner,
    };
    const model = orRefuse(parseNewModel(fields, config.brand));
    orRefuse(await addModel(database, model, { actor, now }));
    const shown = { name: model.name, version: model.version, requires_license: model.requiresLicense };
    if (options.json) printJson(surroundings, shown);
    else printFields(surroundings, shown);
  });
}

function parseMetadata(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CommandRefused("Cannot add model: metadata must be a JSON object");
  }
}
