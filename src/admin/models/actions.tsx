/** @jsxImportSource hono/jsx */
/** The actions that the page of a model offers. */
import * as v from "valibot";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import type { Tier } from "../../licensing/mod.ts";
import {
  addModel,
  type FoundModel,
  type NewModel,
  parseNewModel,
  removeModel,
  retireVersion,
} from "../../models/mod.ts";
import { type Action, action, type Change } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { TEXT } from "../frame/console/form_fields.ts";
import { describeReplaced } from "./known_name.tsx";
import type { SeenBy } from "./seen_by.ts";

/** A model with its versions, and who can see it. */
export interface ShownModel extends FoundModel {
  /** Undefined if no version is listed. */
  readonly seenBy: SeenBy | undefined;
}

type ModelAction = Action<ShownModel>;

/** What stays when clients lose a version. */
const STAYS = "Clients that have the file already can go on using it.";

const remove: ModelAction = action({
  name: "remove",
  scope: "models:write",
  label: "Take off the list",
  group: "Withdraw it",
  submit: "Take it off the list",
  toMany: true,
  fits: ({ model }) => model.listedVersion !== null,
  Form: ({ of: { model, seenBy } }) => (
    <p>
      {`Now ${seenBy?.keys} can see ${model.listedVersion}. After the change no client sees any version of the model. Clients can still download its files by name and version. ${STAYS} The next version that is added is listed again.`}
    </p>
  ),
  perform: ({ of: { model }, by, visit }) => removeModel(visit.options.database, model.name, by),
  done: {
    "model.remove": `The model was taken off the list. No client sees any version of it. ${STAYS}`,
  },
});

const retire: ModelAction = action({
  name: "retire",
  scope: "models:write",
  label: "Retire a version",
  group: "Withdraw it",
  submit: "Retire the version",
  isFinal: true,
  fits: (of) => findUnretired(of) !== undefined,
  Form: ({ of, field }) => (
    <>
      <p>
        {`The downloads of the version end within a minute, and no command brings it back. Its number is never used again. ${STAYS} ${describeRetired(of)}`}
      </p>
      <TextField
        {...field("version")}
        label={`Type the version to retire, such as ${findUnretired(of)?.version}`}
        required
      />
    </>
  ),
  entries: { version: v.pipe(TEXT, v.nonEmpty("must be a version of this model")) },
  perform: ({ of: { model }, fields: { version }, by, visit }) =>
    retireVersion(visit.options.database, { name: model.name, version }, by),
  done: {
    "model.retire": ({ model: { listedVersion } }) =>
      `The version was retired: its downloads end within a minute. ${listedVersion === null ? "No client sees any version of the model." : `Clients still see ${listedVersion}.`} ${STAYS}`,
  },
});

const addVersion: ModelAction = action({
  name: "add-version",
  scope: "models:write",
  label: "Add a version",
  group: "Change the model",
  submit: "Add the version",
  Form: ({ of: { model }, field }) => (
    <>
      <p>
        {`The new version has the tier, type, paradigm, features and classes of ${model.shown.version}. Then you upload its file: clients see the version when the file has arrived${model.listedVersion === null ? "" : `, in place of ${model.listedVersion}`}.`}
      </p>
      <TextField {...field("version")} label="New version" required />
    </>
  ),
  entries: { version: TEXT },
  perform({ of: { model }, fields: { version }, by, visit }) {
    const { name, owner, shown } = model;
    const ownerUuid = owner === null ? undefined : parseId("usr", owner.id);
    return addAwaiting({ ...shown, name, version, ownerUuid }, { by, visit });
  },
  done: {
    "model.add": sayAdded,
    // The script leads here after an upload.
    "model.upload": (_, after) => {
      const { version, checksum } = after as { readonly version: string; readonly checksum: string };
      return `Clients see ${version} now. Its file has arrived with the SHA-256 that the browser computed, ${checksum}.`;
    },
  },
});

function sayAdded({ model }: FoundModel, after: unknown): string {
  const { version, requires_license: requiresLicense } = after as {
    readonly version: string;
    readonly requires_license: Tier;
  };
  const replaced =
    model.listedVersion === null || model.listedVersion === version
      ? "clients do not see the version before"
      : describeReplaced(model, { version, requiresLicense });
  return `The version was added. Upload its file now: ${replaced}.`;
}

/** The actions in the order of the page. */
export const MODEL_ACTIONS = [addVersion, remove, retire];

/** Says what clients see in place of a version that is retired. */
function describeRetired({ model: { listedVersion }, seenBy }: ShownModel): string {
  if (listedVersion === null) return "Clients see no version of the model now.";
  return `If it is ${listedVersion}, which ${seenBy?.keys} can see now, no client sees any version of the model until another one is added. If it is another version, clients still see ${listedVersion}, and a license whose updates ended with the retired one gets an earlier one, or none.`;
}

function findUnretired({ versions }: FoundModel) {
  return versions.find(({ retiredAt }) => retiredAt === null);
}

type Fields = Pick<
  NewModel,
  "name" | "version" | "type" | "paradigm" | "nFeatures" | "nClasses" | "requiresLicense" | "ownerUuid"
>;

/** Adds a version that waits for its file, or refuses it. Its list shows it when the file has arrived. */
export async function addAwaiting(
  fields: Fields,
  { by, visit: { options } }: Pick<Change<ShownModel>, "by" | "visit">,
): Promise<Refusal | undefined> {
  const awaited = { sizeMb: 0, downloadUrl: null, checksum: null, metadata: {} };
  const added = parseNewModel({ ...fields, ...awaited }, options.brand, { names: "json" });
  return isRefusal(added) ? added : await addModel(options.database, added, by);
}
