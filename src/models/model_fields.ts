/** The fields of models and of their versions in answers. Clients do not get the owner. */
import * as v from "valibot";
import {
  count,
  fieldsOf,
  identifier,
  oneOfThese,
  renderFields,
  schemasOf,
  timestamp,
} from "../base/answer_fields.ts";
import { toTimestamp } from "../base/calendar.ts";
import { TIERS } from "../licensing/mod.ts";
import type { FoundModel, ModelVersion } from "./list_versions.ts";
import type { ModelFacts, ModelSummary, NewModel } from "./model.ts";

const ofFacts = fieldsOf<ModelFacts>();

/** What every record of a version has, without the tier. */
const FACTS = {
  version: ofFacts(v.string(), ({ version }) => version),
  type: ofFacts(v.string(), ({ type }) => type),
  paradigm: ofFacts(v.string(), ({ paradigm }) => paradigm),
  n_features: ofFacts(count(1), ({ nFeatures }) => nFeatures),
  n_classes: ofFacts(count(2), ({ nClasses }) => nClasses),
  size_mb: ofFacts(v.number(), ({ sizeMb }) => sizeMb),
} as const;

const REQUIRES_LICENSE = {
  requires_license: ofFacts(oneOfThese(TIERS), ({ requiresLicense }) => requiresLicense),
} as const;

const OWNER = v.nullable(identifier("usr"));
const PUBLIC = "Null for a public model";

const ofListed = fieldsOf<ModelSummary>();

/** A listed model: the record of the contract, in its order, and the owner for operators. */
export const MODEL_FIELDS = {
  name: ofListed(v.string(), ({ name }) => name),
  ...FACTS,
  download_url: ofListed(
    v.nullable(v.string()),
    ({ downloadUrl }) => downloadUrl,
    "Null if the service hosts the file",
  ),
  checksum: ofListed(
    v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/)),
    ({ checksum }) => `sha256:${checksum}`,
  ),
  ...REQUIRES_LICENSE,
  owner: ofListed(OWNER, ({ owner }) => owner, PUBLIC),
  metadata: ofListed(v.record(v.string(), v.unknown()), ({ metadata }) => metadata),
} as const;

/** Renders a listed model as JSON. */
export function renderModel(model: ModelSummary) {
  return renderFields(MODEL_FIELDS, model);
}

const ofVersion = fieldsOf<ModelVersion>();

const VERSION_FIELDS = {
  ...FACTS,
  hosted: ofVersion(v.boolean(), ({ isHosted }) => isHosted, "False if the file is at another address"),
  awaits_file: ofVersion(v.boolean(), ({ awaitsFile }) => awaitsFile, "True until the file is uploaded"),
  ...REQUIRES_LICENSE,
  added_at: ofVersion(timestamp(), ({ createdAt }) => toTimestamp(createdAt)),
  retired_at: ofVersion(
    v.nullable(timestamp()),
    ({ retiredAt }) => retiredAt && toTimestamp(retiredAt),
    "Null for a version that is not retired",
  ),
} as const;

const ofRegistered = fieldsOf<FoundModel>();

/** A model with its versions. */
export const REGISTERED_FIELDS = {
  name: ofRegistered(v.string(), ({ model }) => model.name),
  listed_version: ofRegistered(
    v.nullable(v.string()),
    ({ model }) => model.listedVersion,
    "Null if clients do not see the model",
  ),
  owner: ofRegistered(OWNER, ({ model }) => model.owner?.id ?? null, PUBLIC),
  versions: ofRegistered(v.array(v.object(schemasOf(VERSION_FIELDS))), ({ versions }) =>
    versions.map((version) => renderFields(VERSION_FIELDS, version)),
  ),
} as const;

/** Renders a model with its versions as JSON, for `--json` of the command and for the API. */
export function renderRegistered(found: FoundModel) {
  return renderFields(REGISTERED_FIELDS, found);
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
