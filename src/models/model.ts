/** A model's record and the rules of its fields. */
import * as v from "valibot";
import type { Brand } from "../brand.ts";
import { isStorableJson, isStorableText } from "../database/mod.ts";
import { includesTier, TIERS, type Tier } from "../licensing/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";

/** A version of a model as it is registered. */
export interface NewModel {
  readonly name: string;
  readonly version: string;
  readonly type: string;
  readonly paradigm: string;
  readonly nFeatures: number;
  readonly nClasses: number;
  /** Megabytes, as the client shows them. */
  readonly sizeMb: number;
  /** Where clients get it; null where it is hosted here. */
  readonly downloadUrl: string | null;
  /** The size of the stored file, where it is hosted here. */
  readonly hostedBytes?: number | undefined;
  /** The stored file's own name; without it, clients see the model's name and version. */
  readonly fileName?: string | undefined;
  /** SHA-256, 64 lowercase hexadecimal digits. */
  readonly checksum: string;
  /** The lowest tier that sees it. */
  readonly requiresLicense: Tier;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** UUID of the account whose keys alone see it. */
  readonly ownerUuid?: string | undefined;
}

export interface ModelSummary extends Omit<NewModel, "ownerUuid" | "hostedBytes" | "fileName"> {
  /** `usr_…`; null for a model for everybody. */
  readonly owner: string | null;
}

/**
 * Whether clients can be told that name of a file: 1 to 255 characters of text without control characters, and no
 * separator of paths.
 */
export function isFileName(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is kept out.
  return /^[^/\\\0-\x1f\x7f-\x9f]{1,255}$/.test(text) && !/^\.+$/.test(text) && isStorableText(text);
}

/** The name of a hosted file as clients see it. */
export function toFileName(file: {
  readonly name: string;
  readonly version: string;
  readonly fileName: string | null;
}): string {
  return file.fileName ?? `${file.name}-${file.version}`;
}

/** The size as the list shows it: in hundredths, and exact below one of these, so that no file with bytes has 0. */
export function toMegabytes(sizeBytes: number): number {
  return sizeBytes < 1e4 ? sizeBytes / 1e6 : Math.round(sizeBytes / 1e4) / 100;
}

const slug = (what: string, max: number) =>
  v.pipe(
    v.string(),
    v.regex(
      /^[A-Za-z0-9][A-Za-z0-9._+-]*$/,
      `${what} must be letters, digits, dots, dashes, plus or underscores`,
    ),
    v.maxLength(max, `${what} must have at most ${max} characters`),
  );

const wholeNumber = (what: string, least: number) =>
  v.pipe(
    v.number(`${what} must be a whole number`),
    v.safeInteger(`${what} must be a whole number`),
    v.minValue(least, `${what} must be at least ${least}`),
  );

/** Metadata of a model is shown to every client in every list: 16 KiB are plenty, as for an event. */
const METADATA_LIMIT_BYTES = 16 * 1024;
const METADATA_LEVELS = 32;

function schemaFor(brand: Brand) {
  return v.object({
    name: slug("name", 200),
    version: slug("version", 100),
    type: v.picklist(
      brand.modelTypes,
      `type must be one of ${brand.modelTypes.join(", ")}; the state-space kind lives in the client alone`,
    ),
    paradigm: v.pipe(
      v.string(),
      v.regex(
        /^[a-z0-9][a-z0-9_]{0,99}$/,
        "paradigm must be lowercase letters, digits and underscores, such as p300",
      ),
    ),
    nFeatures: wholeNumber("n-features", 1),
    nClasses: wholeNumber("n-classes", 2),
    sizeMb: v.pipe(
      v.number("size-mb must be a number"),
      v.finite("size-mb must be a number"),
      v.minValue(0, "size-mb must not be negative"),
    ),
    downloadUrl: v.nullable(
      v.pipe(
        v.string(),
        v.maxLength(2_000, "url must have at most 2000 characters"),
        v.check(
          // The parser forgives spaces and control characters; clients get the text as it stands.
          (text) => /^https?:\/\/[\x21-\x7e]+$/i.test(text) && URL.canParse(text),
          "url must be an http or https address, in printable ASCII without spaces",
        ),
      ),
    ),
    fileName: v.optional(v.pipe(v.string(), v.check(isFileName, "the file must have another name"))),
    hostedBytes: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0))),
    checksum: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, "sha256 must be 64 lowercase hexadecimal digits")),
    requiresLicense: v.picklist(TIERS, `requires-license must be one of ${TIERS.join(", ")}`),
    metadata: v.pipe(
      v.custom<Readonly<Record<string, unknown>>>(
        (value) => typeof value === "object" && value !== null && !Array.isArray(value),
        "metadata must be a JSON object",
      ),
      v.check(
        (value) => isStorableJson(value, METADATA_LEVELS),
        "metadata must have at most 32 levels, finite numbers, and text without NUL, unpaired surrogates or U+FFFD",
      ),
      v.check(
        (value) => Buffer.byteLength(JSON.stringify(value)) <= METADATA_LIMIT_BYTES,
        "metadata must have at most 16 KiB",
      ),
    ),
    ownerUuid: v.optional(v.string()),
  });
}

/**
 * Checks a model against the rules of its fields; refuses with the first that is broken. `hasOwner` is for
 * those who know that an account owns it before they know which: they add `ownerUuid` to what is returned.
 */
export function parseNewModel(
  fields: unknown,
  brand: Brand,
  { hasOwner = false }: { readonly hasOwner?: boolean } = {},
): NewModel | Refusal {
  const parsed = v.safeParse(schemaFor(brand), fields);
  if (!parsed.success) {
    const [issue] = parsed.issues;
    return refuse("INVALID_REQUEST", `Cannot add model: ${issue.message}`);
  }
  const model = parsed.output;
  if ((model.downloadUrl === null) !== (model.hostedBytes !== undefined)) {
    return refuse("INVALID_REQUEST", "Cannot add model: it must have either a file or an address");
  }
  const isCustom = hasOwner || model.ownerUuid !== undefined;
  if (isCustom && !includesTier(model.requiresLicense, "commercial")) {
    return refuse(
      "INVALID_REQUEST",
      "Cannot add model: a custom model requires commercial or enterprise; give --requires-license commercial",
    );
  }
  return model;
}
