/** `claviger models …`: list, show, verify, remove, retire, purge and move; `models_add_command.ts` has `add`. */

import { counted } from "../../base/render_count.ts";
import { oneOf } from "../../base/rule.ts";
import {
  findRegistered,
  listAllModels,
  modelsFolderOf,
  moveFiles,
  purgeFiles,
  removeModel,
  renderModel,
  renderRegistered,
  retireVersion,
  verifyFiles,
} from "../../models/mod.ts";
import { databaseCommand, group } from "../command.ts";
import { CONFIRMATION } from "../options.ts";
import { anyText, required } from "../parameter.ts";
import { byteProgress } from "../progress_bar.ts";
import { CommandRefused, orRefuse } from "../run.ts";
import { add } from "./models_add_command.ts";

/** After a signal, for a command whose finished part stays. */
const GO_ON = "run the command again to do the rest";

const NAME = { name: required("the model's name", anyText) };

const list = databaseCommand({
  name: "list",
  description: "list all models",
  async run(_values, { database, print }) {
    const found = (await listAllModels(database)).map(renderModel);
    print.table(
      // The other fields are too long for a table.
      found.map(({ download_url, checksum, metadata, ...row }) => row),
      found,
    );
  },
});

const show = databaseCommand({
  name: "show",
  description: "show a model with its versions, also if it is not listed",
  arguments: NAME,
  async run({ name, json }, { database, print }) {
    const found = await findRegistered(database, name);
    if (found === undefined) throw new CommandRefused(`Cannot show model: no model is named ${name}`);
    const { versions, ...model } = renderRegistered(found);
    if (json) return print.document({ ...model, versions });
    print.fields(model);
    print.table(versions.map(({ n_features, n_classes, ...row }) => row));
  },
});

/** Computes the checksum of every hosted file again; ends with status 1 if a file is missing or wrong. */
const verify = databaseCommand({
  name: "verify",
  description: "read every hosted file to its end and compare it with the registry",
  async run(_values, { invocation, config, database, stopIfInterrupted, print }) {
    const onProgress = byteProgress(invocation, stopIfInterrupted);
    const { files, unnamed } = await verifyFiles(database, config, { onProgress });
    const rows = files.flatMap(({ versions, problem, ...file }) =>
      versions.map((model) => ({
        model,
        state: problem ?? "good",
        bytes: file.sizeBytes,
        checksum: `sha256:${file.sha256}`,
      })),
    );
    const document = { files: rows, unnamed: unnamed.map(({ path }) => path) };
    if (rows.length > 0) print.table(rows, document);
    else print.line("No model files are hosted here, so there is nothing to verify", document);
    for (const { at } of unnamed) print.note(`No version uses ${at}: you may delete it`);
    const bad = rows
      .filter(({ state }) => state !== "good")
      .map(({ model, state }) => `${model} is ${state}`);
    if (bad.length > 0) {
      const remedy =
        "put the same files back from a backup, or add them as new versions with `claviger models add --file`; delete a " +
        "copy that is damaged in the cache, and it is fetched again";
      throw new CommandRefused(`Not every model file is good: ${bad.join(", ")}; ${remedy}`);
    }
  },
});

const remove = databaseCommand({
  name: "remove",
  description: "take a model off the list; clients can still download its files by name and version",
  arguments: NAME,
  options: CONFIRMATION,
  async run({ name, dryRun }, { database, actor, now, print, confirm }) {
    const by = { actor, now };
    const { version } = orRefuse(await removeModel(database, name, { ...by, isDryRun: true }));
    const named = `${name} ${version}`;
    if (dryRun)
      return print.line(`Would remove ${named} from the list`, {
        name,
        version,
        listed: true,
        dry_run: true,
      });
    await confirm(`Take ${named} off the list? No command lists this version again.`);
    orRefuse(await removeModel(database, name, by));
    print.line(`Removed ${named} from the list`, { name, version, listed: false });
  },
});

const retire = databaseCommand({
  name: "retire",
  description: "end the downloads of a version, and take it off the list",
  arguments: { ...NAME, version: required("its version", anyText) },
  options: CONFIRMATION,
  async run({ name, version, dryRun }, { database, actor, now, print, confirm }) {
    const model = { name, version };
    const by = { actor, now };
    const named = `${name} ${version}`;
    orRefuse(await retireVersion(database, model, { ...by, isDryRun: true }));
    if (dryRun) {
      const plan = { ...model, retired: false, dry_run: true };
      return print.line(`Would retire ${named}: its downloads would end`, plan);
    }
    await confirm(`Retire ${named}? Its downloads end, and no command can undo this.`);
    orRefuse(await retireVersion(database, model, by));
    print.line(`Retired ${named}: its downloads end within a minute`, { ...model, retired: true });
  },
});

const purge = databaseCommand({
  name: "purge",
  description: "delete the files that no version has needed for a day",
  ifStopped: GO_ON,
  async run(_values, { config, database, actor, now, print }) {
    const purged = await purgeFiles(database, config, { actor, now });
    const { files, bytes, waiting } = purged;
    const kept =
      waiting === 0
        ? ""
        : `; ${counted(waiting, "file")} kept until a day after the last version was retired`;
    print.line(`Deleted ${counted(files, "file")} (${counted(bytes, "byte")})${kept}`, { ...purged });
  },
});

const move = databaseCommand({
  name: "move",
  description: "copy all model files into the bucket, or from it into the folder, while services serve them",
  ifStopped: GO_ON,
  options: {
    to: required(
      "s3, the bucket of CLAVIGER_MODELS_S3, or folder, that of CLAVIGER_MODELS_DIR",
      oneOf(["s3", "folder"]),
    ),
  },
  async run({ to }, { invocation, config, database, now, stopIfInterrupted, print }) {
    const onProgress = byteProgress(invocation, stopIfInterrupted);
    const done = orRefuse(await moveFiles(database, config, { to, now, onProgress }));
    const { files, bytes, missing } = done;
    const place = to === "s3" ? config.modelsBucket?.url : modelsFolderOf(config);
    print.line(`${counted(files, "file")} (${counted(bytes, "byte")}) in ${place}`, done);
    if (missing.length > 0) {
      throw new CommandRefused(
        `${counted(missing.length, "file")} neither in the bucket nor intact in the folder of this host: run the command on the ` +
          "host that has them, or put them back from a backup; `claviger models verify` names their models",
      );
    }
    const setting = to === "s3" ? "" : "remove CLAVIGER_MODELS_S3 from the settings, and ";
    print.note(`On every host, ${setting}restart the services one after the other, so that they use it`);
  },
});

export const models = group("models", "manage the registry of pre-trained models", [
  add,
  list,
  show,
  verify,
  remove,
  retire,
  purge,
  move,
]);
