import { toTimestamp } from "../base/calendar.ts";
import type { FoundModel } from "./list_versions.ts";
import type { ModelFacts, ModelSummary, NewModel } from "./model.ts";

/** Renders what every record of a version has, without the tier, as JSON. */
function renderFacts({ version, type, paradigm, ...facts }: ModelFacts) {
  return {
    version,
    type,
    paradigm,
    n_features: facts.nFeatures,
    n_classes: facts.nClasses,
    size_mb: facts.sizeMb,
  };
}

/** Renders a listed model as JSON: the record of the contract, in its order, and the owner for operators. */
export function renderModel(model: ModelSummary) {
  return {
    name: model.name,
    ...renderFacts(model),
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

/** Renders a model with its versions as JSON, for `--json` of the command and for the API. */
export function renderRegistered({ model, versions }: FoundModel) {
  return {
    name: model.name,
    listed_version: model.listedVersion,
    owner: model.owner?.id ?? null,
    versions: versions.map((version) => ({
      ...renderFacts(version),
      hosted: version.isHosted,
      awaits_file: version.awaitsFile,
      requires_license: version.requiresLicense,
      added_at: toTimestamp(version.createdAt),
      retired_at: version.retiredAt && toTimestamp(version.retiredAt),
    })),
  };
}
