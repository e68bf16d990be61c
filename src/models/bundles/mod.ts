/**
 * Bundles for customers without a network: one tar file with the license for a machine, the models that the license may load,
 * files that an operator adds, and a signed manifest that names each of them with its SHA-256. Makes and verifies bundles; owns
 * no table.
 */

export { nameBundle } from "./name_bundle.ts";
export {
  type AddedFile,
  type BundlePlan,
  MODEL_NAME,
  MODEL_NAMES,
  MOST_MODELS_NAMED,
  MOST_SOURCES,
  planBundle,
  refuseNow,
} from "./plan_bundle.ts";
export { type ReadBundle, readBundle } from "./read_bundle.ts";
export { BundleBroken, compareModels, type SealedBundle, sealBundle } from "./seal_bundle.ts";
