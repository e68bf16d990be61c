import { toTimestamp } from "../calendar.ts";
import type { FoundModel } from "./list_versions.ts";
import { renderFacts } from "./render_model.ts";

/** Renders a model with its versions as JSON, for `--json` of the command and for the API. */
export function renderRegistered({ model, versions }: FoundModel) {
  return {
    name: model.name,
    listed_version: model.listedVersion,
    owner: model.owner?.id ?? null,
    versions: versions.map((version) => ({
      ...renderFacts(version),
      hosted: version.isHosted,
      requires_license: version.requiresLicense,
      added_at: toTimestamp(version.createdAt),
      retired_at: version.retiredAt && toTimestamp(version.retiredAt),
    })),
  };
}
