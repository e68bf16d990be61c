/** `claviger models …`: list, show, verify, remove, retire and purge; `models_add_command.ts` has `add`. */
import { join } from "node:path";
import type { Command } from "commander";
import {
  findRegistered,
  listAllModels,
  modelsFolderOf,
  purgeFiles,
  removeModel,
  renderModel,
  renderRegistered,
  retireVersion,
  verifyFiles,
} from "../../models/mod.ts";
import { type ConfirmOptions, confirm, withConfirmation } from "../confirm.ts";
import { type JsonOptions, withJsonOptions } from "../options.ts";
import { counted, printFields, printJson, printLine, printNote, printTable } from "../print.ts";
import { byteProgress } from "../progress.ts";
import { CommandRefused, orRefuse, withDatabase } from "../run.ts";
import type { Surroundings } from "../surroundings.ts";
import { addModelsAdd } from "./models_add_command.ts";

/** Adds the group `models`. */
export function addModelsCommands(program: Command, surroundings: Surroundings): void {
  const models = program.command("models").description("manage the registry of pre-trained models");

  addModelsAdd(models, surroundings);

  withJsonOptions(models.command("list"))
    .description("list all models")
    .action((options: JsonOptions) => list(surroundings, options));

  withJsonOptions(models.command("show"))
    .description("show a model with its versions, also if it is not listed")
    .argument("<name>", "the model's name")
    .action((name: string, options: JsonOptions) => show(surroundings, name, options));

  withJsonOptions(models.command("verify"))
    .description("read every hosted file to its end and compare it with the registry")
    .action((options: JsonOptions) => verify(surroundings, options));

  const final = (name: string) =>
    withConfirmation(withJsonOptions(models.command(name))).argument("<name>", "the model's name");

  final("remove")
    .description("take a model off the list; clients can still download its files by name and version")
    .action((name: string, options: ConfirmOptions) => remove(surroundings, name, options));

  final("retire")
    .description("end the downloads of a version, and take it off the list")
    .argument("<version>", "its version")
    .action((name: string, version: string, options: ConfirmOptions) =>
      retire(surroundings, { name, version }, options),
    );

  withJsonOptions(models.command("purge"))
    .description("delete the files that no version has needed for a day")
    .action((options: JsonOptions) => purge(surroundings, options));
}

async function list(surroundings: Surroundings, options: JsonOptions): Promise<void> {
  await withDatabase(surroundings, options, async ({ database }) => {
    const models = (await listAllModels(database)).map(renderModel);
    if (options.json) printJson(surroundings, models);
    else
      printTable(
        surroundings,
        // The other fields are too long for a table.
        models.map(({ download_url, checksum, metadata, ...row }) => row),
      );
  });
}

async function show(surroundings: Surroundings, name: string, options: JsonOptions): Promise<void> {
  await withDatabase(surroundings, options, async ({ database }) => {
    const found = await findRegistered(database, name);
    if (found === undefined) throw new CommandRefused(`Cannot show model: no model is named ${name}`);
    const { versions, ...model } = renderRegistered(found);
    if (options.json) return printJson(surroundings, { ...model, versions });
    printFields(surroundings, model);
    printTable(
      surroundings,
      versions.map(({ n_features, n_classes, ...row }) => row),
    );
  });
}

/** Computes the checksum of every hosted file again; ends with status 1 if a file is missing or wrong. */
async function verify(surroundings: Surroundings, options: JsonOptions): Promise<void> {
  await withDatabase(surroundings, options, async ({ config, database, stopIfInterrupted }) => {
    const show = byteProgress(surroundings);
    const folder = modelsFolderOf(config.dataDir);
    const { files, unnamed } = await verifyFiles(database, folder, {
      onProgress(done, total) {
        stopIfInterrupted();
        show(done, total);
      },
    });
    const rows = files.flatMap(({ versions, problem, ...file }) =>
      versions.map((model) => ({
        model,
        state: problem ?? "good",
        bytes: file.sizeBytes,
        checksum: `sha256:${file.sha256}`,
      })),
    );
    if (options.json) printJson(surroundings, { files: rows, unnamed });
    else {
      if (rows.length > 0) printTable(surroundings, rows);
      else printLine(surroundings, "No model files are hosted here, so there is nothing to verify");
      for (const path of unnamed)
        printNote(surroundings, `No version uses ${join(folder, path)}: you may delete it`);
    }
    const bad = rows
      .filter(({ state }) => state !== "good")
      .map(({ model, state }) => `${model} is ${state}`);
    if (bad.length > 0) {
      const remedy =
        "put the same files back from a backup, or add them as new versions with `claviger models add --file`";
      throw new CommandRefused(`Not every model file is good: ${bad.join(", ")}; ${remedy}`);
    }
  });
}

async function remove(surroundings: Surroundings, name: string, options: ConfirmOptions): Promise<void> {
  await withDatabase(surroundings, options, async (context) => {
    const { version } = orRefuse(await removeModel(context.database, name, { ...context, isDryRun: true }));
    if (!options.dryRun) {
      const question = `Take ${name} ${version} off the list? No command lists this version again.`;
      await confirm(surroundings, question, { ...context, options });
      orRefuse(await removeModel(context.database, name, context));
    }
    const dry = options.dryRun && { dry_run: true };
    if (options.json) printJson(surroundings, { name, version, listed: options.dryRun, ...dry });
    else printLine(surroundings, `${dry ? "Would remove" : "Removed"} ${name} ${version} from the list`);
  });
}

async function retire(
  surroundings: Surroundings,
  model: { readonly name: string; readonly version: string },
  options: ConfirmOptions,
): Promise<void> {
  const named = `${model.name} ${model.version}`;
  await withDatabase(surroundings, options, async (context) => {
    orRefuse(await retireVersion(context.database, model, { ...context, isDryRun: true }));
    if (!options.dryRun) {
      const question = `Retire ${named}? Its downloads end, and no command can undo this.`;
      await confirm(surroundings, question, { ...context, options });
      orRefuse(await retireVersion(context.database, model, context));
    }
    const dry = options.dryRun && { dry_run: true };
    if (options.json) printJson(surroundings, { ...model, retired: !options.dryRun, ...dry });
    else if (dry) printLine(surroundings, `Would retire ${named}: its downloads would end`);
    else printLine(surroundings, `Retired ${named}: its downloads end within a minute`);
  });
}

async function purge(surroundings: Surroundings, options: JsonOptions): Promise<void> {
  await withDatabase(surroundings, options, async ({ config, database, actor, now }) => {
    const purged = await purgeFiles(database, config.dataDir, { actor, now });
    if (options.json) return printJson(surroundings, purged);
    const { files, bytes, waiting } = purged;
    const kept =
      waiting === 0
        ? ""
        : `; ${counted(waiting, "file")} kept until a day after the last version was retired`;
    printLine(surroundings, `Deleted ${counted(files, "file")} (${counted(bytes, "byte")})${kept}`);
  });
}
