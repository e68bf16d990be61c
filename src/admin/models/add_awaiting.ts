/** Adds a version that waits for its file, for the forms of the console. */
import type { By } from "../../audit/mod.ts";
import { addModel, type NewModel, parseNewModel } from "../../models/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import type { Visit } from "../frame/console/visit.ts";

type Fields = Pick<
  NewModel,
  "name" | "version" | "type" | "paradigm" | "nFeatures" | "nClasses" | "requiresLicense" | "ownerUuid"
>;

/** Adds the version, or refuses it. Its list shows it when the file has arrived. */
export async function addAwaiting(
  fields: Fields,
  { by, visit: { options } }: { readonly by: By; readonly visit: Visit },
): Promise<Refusal | undefined> {
  const awaited = { sizeMb: 0, downloadUrl: null, checksum: null, metadata: {} };
  const added = parseNewModel({ ...fields, ...awaited }, options.brand, { names: "json" });
  return isRefusal(added) ? added : await addModel(options.database, added, by);
}
