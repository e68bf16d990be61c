import type { ModelSummary, NewModel } from "./model.ts";

/** Renders a listed model as JSON: the record of the contract, in its order, and the owner for operators. */
export function renderModel(model: ModelSummary) {
  return {
    name: model.name,
    version: model.version,
    type: model.type,
    paradigm: model.paradigm,
    n_features: model.nFeatures,
    n_classes: model.nClasses,
    size_mb: model.sizeMb,
    download_url: model.downloadUrl,
    checksum: `sha256:${model.checksum}`,
    requires_license: model.requiresLicense,
    owner: model.owner,
    metadata: model.metadata,
  };
}

/** Renders the version of a model that was added. For a hosted file the registry determined size and checksum. */
export function renderAddedModel(model: NewModel) {
  return {
    name: model.name,
    version: model.version,
    requires_license: model.requiresLicense,
    ...(model.hostedBytes !== undefined && { size_mb: model.sizeMb, checksum: `sha256:${model.checksum}` }),
  };
}
