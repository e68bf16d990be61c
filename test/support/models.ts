/** Registers models in a test's service. */
import { addModel, parseNewModel } from "../../src/models/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import type { TestService } from "./service.ts";

export const CHECKSUM = "ab".repeat(32);

/**
 * Registers a model as an operator does: by default a free model of motor imagery. `fields` replaces any
 * field.
 */
export async function addTestModel(
  service: TestService,
  model: { readonly name: string; readonly [field: string]: unknown },
): Promise<void> {
  const parsed = parseNewModel(
    {
      version: "1.0.0",
      type: "SvcLDA",
      paradigm: "motor_imagery",
      nFeatures: 44,
      nClasses: 4,
      sizeMb: 2.4,
      downloadUrl: `https://models.example/${model.name}`,
      checksum: CHECKSUM,
      requiresLicense: "free",
      metadata: {},
      ...model,
    },
    service.config.brand,
  );
  if (isRefusal(parsed)) throw new Error(parsed.sentence);
  const by = { actor: { kind: "command", name: "test" }, now: service.clock.now() } as const;
  const added = await addModel(service.database, parsed, by);
  if (isRefusal(added)) throw new Error(added.sentence);
}
