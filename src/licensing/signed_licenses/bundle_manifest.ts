/**
 * The manifest of a bundle: which license, models and files the bundle has, and the SHA-256 of each. It is signed like a
 * license and by the same key, but its type is another, so neither passes as the other. `models/bundles/` makes and reads the
 * bundles.
 */
import * as v from "valibot";
import { isTarName, isTarPath, TAR_FILE_LIMIT_BYTES } from "../../base/ustar.ts";
import { isTime } from "./check_license.ts";
import { verifyManifestSignature } from "./jws.ts";

export const MANIFEST_PATH = "manifest.jws";
export const LICENSE_PATH = "license.jws";
/** A bundle has at most so many files, with its license and without its manifest. */
export const MOST_BUNDLED_FILES = 1_000;

const SHA256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const OF_FILE = {
  size: v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.maxValue(TAR_FILE_LIMIT_BYTES)),
  sha256: SHA256,
};
const pathIn = (folder: "models" | "files") =>
  v.pipe(
    v.string(),
    v.check(
      (path) => path.startsWith(`${folder}/`) && isTarName(path.slice(folder.length + 1)) && isTarPath(path),
    ),
  );

const BUNDLED_FILE = v.variant("kind", [
  v.strictObject({ path: v.literal(LICENSE_PATH), ...OF_FILE, kind: v.literal("license") }),
  v.strictObject({
    path: pathIn("models"),
    ...OF_FILE,
    kind: v.literal("model"),
    name: v.string(),
    version: v.string(),
  }),
  v.strictObject({ path: pathIn("files"), ...OF_FILE, kind: v.literal("file") }),
]);

/** A file of a bundle, as its manifest names it. */
export type BundledFile = v.InferOutput<typeof BUNDLED_FILE>;

const MANIFEST = v.strictObject({
  iss: v.string(),
  aud: v.string(),
  iat: v.custom<number>(isTime),
  /** That of the license. */
  jti: v.string(),
  license_id: v.string(),
  key_id: v.string(),
  fingerprint: v.optional(v.string()),
  /** In the order of the tar file, which is that of the bytes of their paths. */
  files: v.pipe(
    v.array(BUNDLED_FILE),
    v.maxLength(MOST_BUNDLED_FILES),
    v.check((files) =>
      files.every(({ path }, index) => index === 0 || (files[index - 1]?.path ?? "") < path),
    ),
    v.check((files) => files.some(({ kind }) => kind === "license")),
  ),
});

/** The claims of a manifest. */
export type Manifest = v.InferOutput<typeof MANIFEST>;

/** The claims of a license that its manifest repeats. */
interface BundledLicense extends Pick<Manifest, "iss" | "aud" | "iat" | "jti" | "key_id"> {
  readonly sub: string;
  readonly fingerprint?: string;
}

/** Returns the manifest of a bundle with that license. */
export function toManifest(license: BundledLicense, files: readonly BundledFile[]): Manifest {
  const { iss, aud, iat, jti, sub, key_id, fingerprint } = license;
  const bound = fingerprint === undefined ? {} : { fingerprint };
  return { iss, aud, iat, jti, license_id: sub, key_id, ...bound, files: [...files] };
}

/** Tells whether a license is the one that a manifest is about. */
export function isLicenseOf(
  { license_id, files, ...shared }: Manifest,
  license: Readonly<Record<string, unknown>>,
): boolean {
  const wanted = { ...shared, sub: license_id, fingerprint: shared.fingerprint };
  return Object.entries(wanted).every(([name, value]) => license[name] === value);
}

type VerifiedManifest =
  | { readonly ok: true; readonly kid: string; readonly manifest: Manifest }
  | { readonly ok: false; readonly error: string };

/** Verifies the signature of a manifest with one of the trusted public keys (base64url), and the form of its claims. */
export function verifyManifest(jws: string, trusted: readonly string[]): VerifiedManifest {
  const verified = verifyManifestSignature(jws, trusted);
  if (!verified.ok) return verified;
  const parsed = v.safeParse(MANIFEST, verified.claims);
  return parsed.success
    ? { ok: true, kid: verified.kid, manifest: parsed.output }
    : { ok: false, error: "its claims are not those of a manifest that this version knows" };
}
