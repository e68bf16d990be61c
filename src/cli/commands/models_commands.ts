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
import type { Invocation } from "../invocation.ts";
import { type JsonOptions, withJsonOptions } from "../options.ts";
import { counted, printFields, printJson, printLine, printNote, printTable } from "../print.ts";
import { byteProgress } from "../progress.ts";
import { CommandRefused, orRefuse, withDatabase } from "../run.ts";
import { addModelsAdd } from "./models_add_command.ts";

/** Adds the group `models`. */
export function addModelsCommands(program: Command, invocation: Invocation): void {
  const models = program.command("models").description("manage the registry of pre-trained models");

  addModelsAdd(models, invocation);

  withJsonOptions(models.command("list"))
    .description("list all models")
    .action((options: JsonOptions) => list(invocation, options));

  withJsonOptions(models.command("show"))
    .description("show a model with its versions, also if it is not listed")
    .argument("<name>", "the model's name")
    .action((name: string, options: JsonOptions) => show(invocation, name, options));

  withJsonOptions(models.command("verify"))
    .description("read every hosted file to its end and compare it with the registry")
    .action((options: JsonOptions) => verify(invocation, options));

  const final = (name: string) =>
    withConfirmation(withJsonOptions(models.command(name))).argument("<name>", "the model's name");

  final("remove")
    .description("take a model off the list; clients can still download its files by name and version")
    .action((name: string, options: ConfirmOptions) => remove(invocation, name, options));

  final("retire")
    .description("end the downloads of a version, and take it off the list")
    .argument("<version>", "its version")
    .action((name: string, version: string, options: ConfirmOptions) =>
      retire(invocation, { name, version }, options),
    );

  withJsonOptions(models.command("purge"))
    .description("delete the files that no version has needed for a day")
    .action((options: JsonOptions) => purge(invocation, options));
}

async function list(invocation: Invocation, options: JsonOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ database }) => {
    const models = (await listAllModels(database)).map(renderModel);
    if (options.json) printJson(invocation, models);
    else
      printTable(
        invocation,
        // The other fields are too long for a table.
        models.map(({ download_url, checksum, metadata, ...row }) => row),
      );
  });
}

async function show(invocation: Invocation, name: string, options: JsonOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ database }) => {
    const found = await findRegistered(database, name);
    if (found === undefined) throw new CommandRefused(`Cannot show model: no model is named ${name}`);
    const { versions, ...model } = renderRegistered(found);
    if (options.json) return printJson(invocation, { ...model, versions });
    printFields(invocation, model);
    printTable(
      invocation,
      versions.map(({ n_features, n_classes, ...row }) => row),
    );
  });
}

/** Computes the checksum of every hosted file again; ends with status 1 if a file is missing or wrong. */
async function verify(invocation: Invocation, options: JsonOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ config, database, stopIfInterrupted }) => {
    const show = byteProgress(invocation);
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
    if (options.json) printJson(invocation, { files: rows, unnamed });
    else {
      if (rows.length > 0) printTable(invocation, rows);
      else printLine(invocation, "No model files are hosted here, so there is nothing to verify");
      for (const path of unnamed)
        printNote(invocation, `No version uses ${join(folder, path)}: you may delete it`);
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

async function remove(invocation: Invocation, name: string, options: ConfirmOptions): Promise<void> {
  await withDatabase(invocation, options, async (context) => {
    const { version } = orRefuse(await removeModel(context.database, name, { ...context, isDryRun: true }));
    if (!options.dryRun) {
      const question = `Take ${name} ${version} off the list? No command lists this version again.`;
      await confirm(invocation, question, { ...context, options });
      orRefuse(await removeModel(context.database, name, context));
    }
    const dry = options.dryRun && { dry_run: true };
    if (options.json) printJson(invocation, { name, version, listed: options.dryRun, ...dry });
    else printLine(invocation, `${dry ? "Would remove" : "Removed"} ${name} ${version} from the list`);
  });
}

async function retire(
  invocation: Invocation,
  model: { readonly name: string; readonly version: string },
  options: ConfirmOptions,
): Promise<void> {
  const named = `${model.name} ${model.version}`;
  await withDatabase(invocation, options, async (context) => {
    orRefuse(await retireVersion(context.database, model, { ...context, isDryRun: true }));
    if (!options.dryRun) {
      const question = `Retire ${named}? Its downloads end, and no command can undo this.`;
      await confirm(invocation, question, { ...context, options });
      orRefuse(await retireVersion(context.database, model, context));
    }
    const dry = options.dryRun && { dry_run: true };
    if (options.json) printJson(invocation, { ...model, retired: !options.dryRun, ...dry });
    else if (dry) printLine(invocation, `Would retire ${named}: its downloads would end`);
    else printLine(invocation, `Retired ${named}: its downloads end within a minute`);
  });
}

async function purge(invocation: Invocation, options: JsonOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ config, database, actor, now }) => {
    const purged = await purgeFiles(database, config.dataDir, { actor, now });
    if (options.json) return printJson(invocation, purged);
    const { files, bytes, waiting } = purged;
    const kept =
      waiting === 0
        ? ""
        : `; ${counted(waiting, "file")} kept until a day after the last version was retired`;
    printLine(invocation, `Deleted ${counted(files, "file")} (${counted(bytes, "byte")})${kept}`);
  });
}
