/** Registers models in a test's service. */
import { addNewModel } from "./new_model.ts";
import type { TestService } from "./service.ts";

export const CHECKSUM = "ab".repeat(32);

/**
 * Registers a model as an operator does: by default a free model of motor imagery. `fields` replaces any
 * field.
 */
export async function addTestModel(
  { database, clock, config }: TestService,
  model: { readonly name: string; readonly [field: string]: unknown },
): Promise<void> {
  const fields = { downloadUrl: `https://models.example/${model.name}`, ...model };
  await addNewModel(database, fields, { now: clock.now(), brand: config.brand });
}
