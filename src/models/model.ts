/** The record of a model, and the rules of its fields. */
import * as v from "valibot";
import { type Refusal, refuse } from "../base/refusal.ts";
import {
  matching,
  type NumberRule,
  numberField,
  parsedField,
  type Rule,
  wholeNumber,
  wordField,
} from "../base/rule.ts";
import { hasKey } from "../base/secrets/mod.ts";
import { isStorableText, metadataField } from "../database/mod.ts";
import type { Brand } from "../licensing/mod.ts";
import { includesTier, TIERS } from "../licensing/mod.ts";

/** A version of a model, as the registry stores it. */
export type NewModel = v.InferOutput<ReturnType<typeof schemaFor>>;

/** What every record of a version has. */
export type ModelFacts = Pick<
  NewModel,
  "version" | "type" | "paradigm" | "nFeatures" | "nClasses" | "sizeMb" | "requiresLicense"
>;

export interface ModelSummary extends Omit<NewModel, "ownerUuid" | "hostedBytes" | "fileName" | "checksum"> {
  readonly checksum: string;
  /** `usr_…`; null for a public model. */
  readonly owner: string | null;
}

/** Returns the name of a hosted file for clients. */
export function toFileName(file: {
  readonly name: string;
  readonly version: string;
  readonly fileName: string | null;
}): string {
  return file.fileName ?? `${file.name}-${file.version}`;
}

/**
 * Returns the size for lists: in hundredths of a megabyte, and exact below one hundredth, so that only an empty file
 * has 0.
 */
export function toMegabytes(sizeBytes: number): number {
  return sizeBytes < 1e4 ? sizeBytes / 1e6 : Math.round(sizeBytes / 1e4) / 100;
}

/** Returns a size for lists, which is in megabytes, as bytes. */
export function toBytes(sizeMb: number): number {
  return Math.round(sizeMb * 1e6);
}

/** The rule for a name and for a version. */
function slugOf(maxLength: number): Rule<string> {
  const slug = /^[A-Za-z0-9][A-Za-z0-9._+-]*$/;
  return withoutKey({
    expects: `letters, digits, dots, dashes, plus or underscores, at most ${maxLength} characters`,
    keywords: { pattern: slug.source, maxLength },
    parse: (text) => (text.length <= maxLength && slug.test(text) ? text : undefined),
  });
}

/** Refuses a text with a key. Every customer who may use the model gets its texts, and every backup has them. */
function withoutKey({ expects, keywords, parse }: Rule<string>): Rule<string> {
  return {
    expects: `${expects}, and no API key`,
    keywords,
    parse: (text) => (parse(text) === undefined || hasKey(text) ? undefined : text),
  };
}

const PARADIGM_FORM = /^[a-z0-9][a-z0-9_]{0,99}$/;
// The parser of addresses ignores spaces and control characters, but clients get the text unchanged.
const ADDRESS_FORM = /^[Hh][Tt][Tt][Pp][Ss]?:\/\/[!-~]+$/;
const MAX_ADDRESS_LENGTH = 2_000;
const CHECKSUM_FORM = /^(sha256:)?[0-9a-f]{64}$/;

const ADDRESS = withoutKey({
  expects:
    `an http or https address of at most ${MAX_ADDRESS_LENGTH} printable ASCII characters without spaces, ` +
    "with no user and no password, because every client that lists the model gets them",
  keywords: { pattern: ADDRESS_FORM.source, maxLength: MAX_ADDRESS_LENGTH },
  parse(text) {
    const url = text.length <= MAX_ADDRESS_LENGTH && ADDRESS_FORM.test(text) ? URL.parse(text) : null;
    return url?.username === "" && url.password === "" ? text : undefined;
  },
});

/** A petabyte. */
const MAX_SIZE_MB = 1_000_000_000;

/** The rule for a size, in megabytes. */
const SIZE_MB: NumberRule = {
  expects: `a number from 0 to ${MAX_SIZE_MB}`,
  keywords: { type: "number", minimum: 0, maximum: MAX_SIZE_MB },
  allows: (number) => number >= 0 && number <= MAX_SIZE_MB,
  parse: (text) => (text.trim() !== "" && SIZE_MB.allows(Number(text)) ? Number(text) : undefined),
};

/**
 * The rules of the fields: a door only names the field. The allowed types depend on the brand, so only
 * {@linkcode parseNewModel} checks the type.
 */
export const MODEL_RULES = {
  name: slugOf(200),
  version: slugOf(100),
  type: {
    expects: "a string",
    keywords: { description: "SvcLDA, SvcQDA or SvcProbit; another brand has its own prefix" },
    parse: (text) => text,
  },
  paradigm: withoutKey({
    ...matching(PARADIGM_FORM, "lowercase letters, digits and underscores, such as p300"),
    keywords: { pattern: PARADIGM_FORM.source },
  }),
  nFeatures: wholeNumber(1),
  nClasses: wholeNumber(2),
  sizeMb: SIZE_MB,
  downloadUrl: ADDRESS,
  /** The value is the 64 digits alone. */
  checksum: {
    expects: "64 lowercase hexadecimal digits, with or without sha256: before them",
    keywords: { pattern: CHECKSUM_FORM.source },
    parse: (text) => (CHECKSUM_FORM.test(text) ? text.slice(-64) : undefined),
  },
  /** 1 to 255 characters without control characters and without a path separator; `-` means standard input. */
  fileName: withoutKey({
    expects: "the name of a file, without a folder",
    keywords: { maxLength: 255 },
    parse(text) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are refused here.
      const hasForm = /^[^/\\\0-\x1f\x7f-\x9f]{1,255}$/.test(text) && !/^(\.+|-)$/.test(text);
      return hasForm && isStorableText(text) ? text : undefined;
    },
  }),
} as const satisfies Readonly<Record<string, Rule<string> | NumberRule>>;

function schemaFor(brand: Brand) {
  return v.object({
    name: parsedField(MODEL_RULES.name),
    version: parsedField(MODEL_RULES.version),
    type: v.picklist(brand.modelTypes, ({ input }) =>
      /state.?space/i.test(String(input))
        ? "must not be the state-space kind, which exists only in the client"
        : `must be one of ${brand.modelTypes.join(", ")}; for another type set CLAVIGER_MODEL_TYPES`,
    ),
    paradigm: parsedField(MODEL_RULES.paradigm),
    nFeatures: numberField(MODEL_RULES.nFeatures),
    nClasses: numberField(MODEL_RULES.nClasses),
    /** Megabytes. */
    sizeMb: numberField(MODEL_RULES.sizeMb),
    /** The address of the file; null if it is hosted here or will be. */
    downloadUrl: v.nullable(parsedField(MODEL_RULES.downloadUrl)),
    /** The name of a hosted file; by default clients see the model's name and version. */
    fileName: v.optional(parsedField(MODEL_RULES.fileName)),
    /** The size of a hosted file. */
    hostedBytes: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0))),
    /** SHA-256; null while the file is not known. */
    checksum: v.nullable(parsedField(MODEL_RULES.checksum)),
    /** The lowest tier that may use the model. */
    requiresLicense: wordField(TIERS),
    /** Every list contains the metadata of its models, so it is bounded, as for an event. */
    metadata: v.pipe(
      metadataField(),
      v.check((value) => !hasKey(JSON.stringify(value)), "must hold no API key"),
    ),
    /** The account that owns the model; only its keys see the model. */
    ownerUuid: v.optional(v.string()),
  });
}

/** The names of fields in JSON and in the options of commands; the other fields have the same name everywhere. */
const NAMES: Readonly<Record<string, { readonly json: string; readonly option: string }>> = {
  nFeatures: { json: "n_features", option: "n-features" },
  nClasses: { json: "n_classes", option: "n-classes" },
  sizeMb: { json: "size_mb", option: "size-mb" },
  downloadUrl: { json: "url", option: "url" },
  checksum: { json: "checksum", option: "sha256" },
  requiresLicense: { json: "requires_license", option: "requires-license" },
  fileName: { json: "fileName", option: "the file" },
};

/**
 * Checks a model against the rules of its fields, and refuses with the first broken rule. The sentence uses the names
 * of the commands' options, or with `names` those in JSON; the fields of the refusal use the names in JSON. `hasOwner`
 * is for callers that know that an account owns the model, but not yet which account: they add `ownerUuid` to the result.
 */
export function parseNewModel(
  fields: unknown,
  brand: Brand,
  {
    hasOwner = false,
    names = "option",
  }: { readonly hasOwner?: boolean; readonly names?: "json" | "option" } = {},
): NewModel | Refusal {
  const parsed = v.safeParse(schemaFor(brand), fields);
  if (!parsed.success) {
    const [{ message, path }] = parsed.issues;
    const key = String(path?.[0]?.key ?? "the model");
    const field = NAMES[key]?.json ?? key;
    return refuse("INVALID_REQUEST", `Cannot add model: ${NAMES[key]?.[names] ?? key} ${message}`, {
      fields: [{ field, error: `${field} ${message}` }],
    });
  }
  const model = parsed.output;
  const isKnown = model.checksum !== null;
  if (isKnown !== ((model.downloadUrl === null) === (model.hostedBytes !== undefined))) {
    return refuse("INVALID_REQUEST", "Cannot add model: it must have either a file or an address");
  }
  if (model.downloadUrl !== null && model.sizeMb === 0) {
    const error = "must be above 0, because no model file is empty";
    return refuse("INVALID_REQUEST", `Cannot add model: ${NAMES.sizeMb?.[names]} ${error}`, {
      fields: [{ field: "size_mb", error: `size_mb ${error}` }],
    });
  }
  const isCustom = hasOwner || model.ownerUuid !== undefined;
  if (isCustom && !includesTier(model.requiresLicense, "commercial")) {
    const error = "a custom model requires commercial or enterprise";
    return refuse("INVALID_REQUEST", `Cannot add model: ${error}`, {
      fields: [{ field: "requires_license", error }],
      remedy: { name: "require_commercial" },
    });
  }
  return model;
}
