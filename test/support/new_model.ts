/** Makes models for tests: their fields alone, or registered. */
import type { Database } from "../../src/database/mod.ts";
import { addModel, parseNewModel } from "../../src/models/mod.ts";
import { ACTOR, BRAND, orThrow } from "./issue.ts";

/** Returns the fields of a free model of motor imagery; `fields` replaces any of them. */
export function newModel(fields: object = {}): object {
  return {
    name: "motor_imagery_4class_v1",
    version: "1.0.0",
    type: "SvcLDA",
    paradigm: "motor_imagery",
    nFeatures: 44,
    nClasses: 4,
    sizeMb: 2.4,
    downloadUrl: "https://models.example/m",
    checksum: "ab".repeat(32),
    requiresLicense: "free",
    metadata: {},
    ...fields,
  };
}

/** Registers a model with the fields of {@linkcode newModel}, as an operator does. */
export async function addNewModel(
  database: Database,
  fields: object,
  { now, brand = BRAND }: { readonly now: Date; readonly brand?: typeof BRAND },
): Promise<void> {
  orThrow(await addModel(database, orThrow(parseNewModel(newModel(fields), brand)), { actor: ACTOR, now }));
}
