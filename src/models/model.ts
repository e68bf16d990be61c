/** The record of a model, and the rules of its fields. */
import * as v from "valibot";
import type { Brand } from "../brand.ts";
import { isStorableText, metadataField } from "../database/mod.ts";
import { includesTier, TIERS } from "../licensing/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { type NumberRule, numberField, wholeNumber, wordField } from "../rule.ts";
import { isSha256 } from "./file_store.ts";

/** A version of a model, as the registry stores it. */
export type NewModel = v.InferOutput<ReturnType<typeof schemaFor>>;

/** What every record of a version has. */
export type ModelFacts = Pick<
  NewModel,
  "version" | "type" | "paradigm" | "nFeatures" | "nClasses" | "sizeMb" | "requiresLicense"
>;

export interface ModelSummary extends Omit<NewModel, "ownerUuid" | "hostedBytes" | "fileName"> {
  /** `usr_…`; null for a public model. */
  readonly owner: string | null;
}

/**
 * Tells whether a text can be the name of a file: 1 to 255 characters without control characters and without a path
 * separator.
 */
export function isFileName(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are refused here.
  return /^[^/\\\0-\x1f\x7f-\x9f]{1,255}$/.test(text) && !/^\.+$/.test(text) && isStorableText(text);
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

const SLUG = /^[A-Za-z0-9][A-Za-z0-9._+-]*$/;
const PARADIGM = /^[a-z0-9][a-z0-9_]{0,99}$/;
// The parser of addresses ignores spaces and control characters, but clients get the text unchanged.
const ADDRESS = /^[Hh][Tt][Tt][Pp][Ss]?:\/\/[!-~]+$/;

/** The forms of texts, in the words of JSON Schema. */
export const MODEL_TEXTS = {
  name: { pattern: SLUG.source, maxLength: 200 },
  version: { pattern: SLUG.source, maxLength: 100 },
  paradigm: { pattern: PARADIGM.source },
  url: { pattern: ADDRESS.source, maxLength: 2_000 },
} as const;

/** A petabyte. */
const MAX_SIZE_MB = 1_000_000_000;

/** The rule for a size, in megabytes. */
const SIZE_MB: NumberRule = {
  must: `must be a number from 0 to ${MAX_SIZE_MB}`,
  keywords: { type: "number", minimum: 0, maximum: MAX_SIZE_MB },
  allows: (number) => number >= 0 && number <= MAX_SIZE_MB,
  parse: (text) => (text.trim() !== "" && SIZE_MB.allows(Number(text)) ? Number(text) : undefined),
};

/** The rules for numbers. */
export const MODEL_NUMBERS = {
  nFeatures: wholeNumber(1),
  nClasses: wholeNumber(2),
  sizeMb: SIZE_MB,
} as const;

/** Tells whether a text can be a name, the longer of names and versions. */
export function isSlug(text: string): boolean {
  return text.length <= MODEL_TEXTS.name.maxLength && SLUG.test(text);
}

// The sentences of the rules follow the name of the field, which commands and the API write differently.
const atMost = (max: number) =>
  v.maxLength<string, number, string>(max, `must have at most ${max} characters`);

const slug = ({ maxLength }: { readonly maxLength: number }) =>
  v.pipe(
    v.string("must be a text"),
    v.regex(SLUG, "must be letters, digits, dots, dashes, plus or underscores"),
    atMost(maxLength),
  );

function schemaFor(brand: Brand) {
  return v.object({
    name: slug(MODEL_TEXTS.name),
    version: slug(MODEL_TEXTS.version),
    type: v.picklist(brand.modelTypes, ({ input }) =>
      /state.?space/i.test(String(input))
        ? "must not be the state-space kind, which exists only in the client"
        : `must be one of ${brand.modelTypes.join(", ")}; for another type set CLAVIGER_MODEL_TYPES`,
    ),
    paradigm: v.pipe(
      v.string("must be a text"),
      v.regex(PARADIGM, "must be lowercase letters, digits and underscores, such as p300"),
    ),
    nFeatures: numberField(MODEL_NUMBERS.nFeatures),
    nClasses: numberField(MODEL_NUMBERS.nClasses),
    /** Megabytes. */
    sizeMb: numberField(MODEL_NUMBERS.sizeMb),
    /** The address of the file; null if it is hosted here. */
    downloadUrl: v.nullable(
      v.pipe(
        v.string("must be a text"),
        atMost(MODEL_TEXTS.url.maxLength),
        v.check(
          (text) => ADDRESS.test(text) && URL.canParse(text),
          "must be an http or https address, in printable ASCII without spaces",
        ),
        v.check(
          (text) => !URL.parse(text)?.username && !URL.parse(text)?.password,
          "must have no user and no password, because every client that lists the model gets them",
        ),
      ),
    ),
    /** The name of a hosted file; by default clients see the model's name and version. */
    fileName: v.optional(v.pipe(v.string(), v.check(isFileName, "must have another name"))),
    /** The size of a hosted file. */
    hostedBytes: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0))),
    /** SHA-256. */
    checksum: v.pipe(
      v.string("must be a text"),
      v.check(isSha256, "must be 64 lowercase hexadecimal digits"),
    ),
    /** The lowest tier that may use the model. */
    requiresLicense: wordField(TIERS),
    /** Every list contains the metadata of its models, so it is bounded, as for an event. */
    metadata: metadataField(),
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
  if ((model.downloadUrl === null) !== (model.hostedBytes !== undefined)) {
    return refuse("INVALID_REQUEST", "Cannot add model: it must have either a file or an address");
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
