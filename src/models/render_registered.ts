import { toTimestamp } from "../calendar.ts";
import type { ModelVersion, RegisteredModel } from "./list_versions.ts";

/** Renders a model with its versions as JSON, for `--json` of the command and for the API. */
export function renderRegistered({
  model,
  versions,
}: {
  readonly model: RegisteredModel;
  readonly versions: readonly ModelVersion[];
}) {
  return {
    name: model.name,
    listed_version: model.listedVersion,
    owner: model.owner?.id ?? null,
    versions: versions.map((version) => ({
      version: version.version,
      type: version.type,
      paradigm: version.paradigm,
      n_features: version.nFeatures,
      n_classes: version.nClasses,
      size_mb: version.sizeMb,
      hosted: version.isHosted,
      requires_license: version.requiresLicense,
      added_at: toTimestamp(version.createdAt),
      retired_at: version.retiredAt && toTimestamp(version.retiredAt),
    })),
  };
}
