/** `claviger bundle make`: a bundle for each of some machines. */
import { basename, resolve } from "node:path";
import { idRule } from "../../base/ids.ts";
import { EXPORTED_FINGERPRINT } from "../../licensing/signed_licenses/mod.ts";
import {
  type BundlePlan,
  compareModels,
  MODEL_NAME,
  MOST_MODELS_NAMED,
  MOST_SOURCES,
  planBundle,
} from "../../models/bundles/mod.ts";
import { demandRoom, findTargets, MOST_MACHINES, readMachines } from "../bundle_targets.ts";
import { type DatabaseCall, databaseCommand } from "../command.ts";
import { EXPORT_DAYS, foreseeLicenses } from "../export_license.ts";
import { demandKey } from "../find_named.ts";
import { endBundles, makeBundles } from "../make_bundles.ts";
import { CONFIRMATION, PATH, REASON } from "../options.ts";
import { flag, option, repeated, required } from "../parameter.ts";
import { renderRefusal } from "../remedies.ts";
import { CommandRefused, orRefuse } from "../run.ts";

export const make = databaseCommand({
  name: "make",
  description:
    "sign the license of a key, and write it with its models and added files into one tar file for each machine",
  options: {
    key: required("the key's id", idRule("key"), { as: "id" }),
    fingerprint: option(
      "the fingerprint of the only machine that may use the license; repeat it for more machines, each of which gets a file",
      repeated(EXPORTED_FINGERPRINT, MOST_MACHINES),
      { as: "text" },
    ),
    fingerprints: option("a file with a fingerprint on each line", PATH, {
      as: "file",
      conflicts: ["fingerprint"],
    }),
    days: EXPORT_DAYS,
    model: option(
      "the name of a model; repeat it for more models; by default all that the license may load and that are hosted here",
      repeated(MODEL_NAME, MOST_MODELS_NAMED),
      { as: "name" },
    ),
    withoutModels: flag("put no model into the bundle", { conflicts: ["model"] }),
    add: option("a file to add, such as a package; repeat it for more files", repeated(PATH, MOST_SOURCES), {
      as: "file",
    }),
    to: required(
      "the file to write, such as customer.tar; or a folder, in which each file gets the name CUSTOMER-MACHINE-DAY.tar",
      PATH,
      { as: "path" },
    ),
    yes: CONFIRMATION.yes,
    ...REASON,
  },
  ifStopped: "bundles that were written stay, and so do the places of machines whose licenses were signed",
  async run({ key: keyUuid, days, model, withoutModels, add = [], to, ...options }, call) {
    const { invocation, config, database, now, stopIfInterrupted } = call;
    const fingerprints = readMachines(call, options);
    const key = await demandKey(call, keyUuid, "make bundle");
    const all = findTargets(call, { to, key, fingerprints });
    const { signer, foreseen, confirm } = await foreseeLicenses(call, key, { days, fingerprints });
    const refused = foreseen.flatMap(({ fingerprint, refusal }) =>
      refusal === undefined ? [] : [{ fingerprint, error: renderRefusal(refusal) }],
    );
    const targets = all.filter((target) => refused.every((each) => each.fingerprint !== target.fingerprint));
    const plan = orRefuse(
      await planBundle(database, {
        place: config,
        keyUuid,
        models: withoutModels ? [] : model,
        files: add.map((file) => ({
          name: basename(file),
          path: resolve(invocation.workingFolder, file),
        })),
        now,
        onBytes: stopIfInterrupted,
      }),
    );
    demandRoom(plan, targets);
    await compare(call, plan);
    noteElsewhere(call, plan);
    await confirm();
    const results = await makeBundles(call, { signer, plan, targets, refused, request: { keyUuid, days } });
    endBundles(call, { plan, key, results });
  },
});

/** Refuses a damaged model before anything is signed. */
async function compare({ stopIfInterrupted }: DatabaseCall, plan: BundlePlan): Promise<void> {
  const stop = () => {
    stopIfInterrupted();
    return undefined;
  };
  const refusal = await compareModels(plan, { stop });
  if (refusal !== undefined) throw new CommandRefused(renderRefusal(refusal));
}

function noteElsewhere({ print }: DatabaseCall, { elsewhere }: BundlePlan): void {
  if (elsewhere.length > 0)
    print.note(`Not in the bundle, because their files are not hosted here: ${elsewhere.join(", ")}`);
}
