/** The model registry: list, show, add versions whose file is elsewhere, take off the list, and retire. */
import * as v from "valibot";
import { count, oneOfThese, schemasOf } from "../../base/answer_fields.ts";
import { idRule } from "../../base/ids.ts";
import { isRefusal, refuse } from "../../base/refusal.ts";
import { type NumberRule, numberField, parsedField } from "../../base/rule.ts";
import { metadataField } from "../../database/mod.ts";
import { TIERS } from "../../licensing/mod.ts";
import {
  addModel,
  findRegistered,
  listModels,
  MODEL_FIELDS,
  MODEL_RULES,
  parseNewModel,
  REGISTERED_FIELDS,
  removeModel,
  renderAddedModel,
  renderModel,
  renderRegistered,
  retireVersion,
} from "../../models/mod.ts";
import { REASON, TIER_FIELD } from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { modelFor, modelVersionFor } from "../frame/api/path_ids.ts";
import { route, titled } from "../frame/api/route.ts";
import { takeFile, UPLOAD_HEADERS, UPLOAD_PATH, UPLOAD_QUERY } from "./upload.tsx";

function modelNumber(rule: NumberRule) {
  const { maximum, ...others } = rule.keywords;
  // A number that only JSON bounds has no maximum in the document.
  return numberField(maximum === Number.MAX_SAFE_INTEGER ? { ...rule, keywords: others } : rule);
}

const NEW_MODEL = v.strictObject({
  name: parsedField(MODEL_RULES.name),
  version: parsedField(MODEL_RULES.version),
  type: parsedField(MODEL_RULES.type),
  paradigm: parsedField(MODEL_RULES.paradigm),
  n_features: modelNumber(MODEL_RULES.nFeatures),
  n_classes: modelNumber(MODEL_RULES.nClasses),
  size_mb: v.optional(modelNumber(MODEL_RULES.sizeMb)),
  url: v.optional(
    parsedField(MODEL_RULES.downloadUrl, {
      format: "uri",
      description:
        "The address where clients download the file, without a user and a password; it needs `size_mb`, above 0, and `checksum`. " +
        "Without it the version is listed when its file is uploaded.",
    }),
  ),
  checksum: v.optional(parsedField(MODEL_RULES.checksum)),
  requires_license: TIER_FIELD,
  metadata: v.nullish(metadataField()),
  owner: v.optional(parsedField(idRule("usr"), { description: "Only keys of this account see the model" })),
  ...REASON,
});

const VERSION = { name: v.string(), version: v.string() };

const MODEL = titled("Model", schemasOf(MODEL_FIELDS));
const REGISTERED_MODEL = titled("RegisteredModel", schemasOf(REGISTERED_FIELDS));

const NEED_EACH_OTHER = refuse(
  "INVALID_REQUEST",
  "Cannot add model: url, checksum and size_mb need each other; leave out all of them for a file that is uploaded",
);

export const MODEL_ROUTES = [
  route("GET /models", "models:read", {
    id: "listModels",
    summary: "List the models of every owner, oldest first, each with the version that clients see",
    query: v.strictObject(PAGE_FIELDS),
    success: { schema: pageOf(MODEL), description: "A page of models" },
    run: ({ database }, { query, now }) =>
      findPage({
        list: "models",
        query,
        now,
        find: ({ position, limit }) => listModels(database, { afterUuid: position, limit }),
        positionOf: ({ uuid }) => uuid,
        render: (model) => renderModel(model),
      }),
  }),

  route("POST /models", "models:write", {
    id: "addModel",
    summary:
      "Add a version of a model whose file is elsewhere or will be uploaded; the list shows it once it has a file",
    body: NEW_MODEL,
    success: {
      status: 201,
      schema: v.object({ ...VERSION, requires_license: oneOfThese(TIERS) }),
      description: "The version is listed; without an address it waits for its file",
    },
    codes: ["NOT_FOUND", "ALREADY_EXISTS", "CONFLICT"],
    async run({ database, brand }, { body, actor, now }) {
      const { url, checksum, size_mb } = body;
      const given = [url, checksum, size_mb].filter((each) => each !== undefined);
      if (given.length === 1 || given.length === 2) return NEED_EACH_OTHER;
      const model = parseNewModel(
        {
          ...body,
          nFeatures: body.n_features,
          nClasses: body.n_classes,
          sizeMb: size_mb ?? 0,
          downloadUrl: url ?? null,
          checksum: checksum ?? null,
          requiresLicense: body.requires_license,
          metadata: body.metadata ?? {},
          ownerUuid: body.owner,
        },
        brand,
        { names: "json" },
      );
      if (isRefusal(model)) return model;
      return (await addModel(database, model, { actor, now })) ?? renderAddedModel(model);
    },
  }),

  route("GET /models/:name", "models:read", {
    id: "getModel",
    summary: "Show a model with its versions, also if it is not listed",
    path: modelFor("show model"),
    success: { schema: REGISTERED_MODEL, description: "The model, and its newest versions, at most 100" },
    async run({ database }, { name }) {
      const found = await findRegistered(database, name);
      return found === undefined
        ? refuse("NOT_FOUND", "Cannot show model: no model has that name")
        : renderRegistered(found);
    },
  }),

  route("DELETE /models/:name", "models:write", {
    id: "removeModel",
    summary: "Take a model off the list; clients can still download its files by name and version",
    path: modelFor("remove model"),
    success: {
      schema: v.object({ ...VERSION, listed: v.literal(false) }),
      description: "The model is no longer listed",
    },
    async run({ database }, call) {
      const { name } = call;
      const removed = await removeModel(database, name, call);
      return isRefusal(removed) ? removed : { name, version: removed.version, listed: false };
    },
  }),

  route("PUT /models/:name/:version/file", "models:write", {
    id: "uploadModelFile",
    summary:
      "Upload the file of a version that was added without an address; the list then shows this version",
    description: "An interrupted upload leaves nothing, and each upload can be repeated.",
    path: UPLOAD_PATH,
    query: UPLOAD_QUERY,
    headers: UPLOAD_HEADERS,
    file: "The bytes of the file, not encoded",
    success: {
      schema: v.object({ ...VERSION, size_bytes: count(1), checksum: MODEL.entries.checksum }),
      description: "The version has this file",
    },
    codes: ["CONFLICT", "PRECONDITION_FAILED"],
    run: (options, { query: { file_name: fileName }, ...call }) => takeFile(options, { ...call, fileName }),
  }),

  route("POST /models/:name/:version/retire", "models:write", {
    id: "retireModelVersion",
    summary: "End the downloads of a version, within a minute, and take it off the list",
    path: modelVersionFor("retire model"),
    body: v.strictObject(REASON),
    success: {
      schema: v.object({ ...VERSION, retired: v.literal(true) }),
      description: "The version is retired",
    },
    codes: ["CONFLICT"],
    async run({ database }, call) {
      const { name, version } = call;
      return (await retireVersion(database, { name, version }, call)) ?? { name, version, retired: true };
    },
  }),
];
