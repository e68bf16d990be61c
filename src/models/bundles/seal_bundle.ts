/**
 * Makes a bundle of a plan: exports the license as every export does, signs the manifest with the same key, and returns the
 * bytes of the tar file, which are read and compared while they are written. No file is in memory as a whole.
 */
import { createHash, hash } from "node:crypto";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { type TarFile, tarSizeOf, writeTar } from "../../base/ustar.ts";
import {
  type BundledFile,
  type ExportRequest,
  LICENSE_PATH,
  type LicenseSigner,
  MANIFEST_PATH,
  type SignedLicense,
} from "../../licensing/signed_licenses/mod.ts";
import { type BundlePlan, type BundleSource, byPath, refuseBucket, refuseBundle } from "./plan_bundle.ts";

/** Thrown if the bytes of a file are not those that the manifest names. The message is a sentence for people. */
export class BundleBroken extends Error {}

export interface SealedBundle {
  readonly signed: SignedLicense;
  readonly sizeBytes: number;
  /** Returns the tar file. Each chunk is used before the next one is read. */
  read(): AsyncGenerator<Uint8Array, undefined>;
}

/** Exports the license of a bundle and signs its manifest. Refuses what an export refuses, and then changes nothing. */
export async function sealBundle(
  signer: Pick<LicenseSigner, "export" | "signManifest">,
  { sources }: BundlePlan,
  request: Omit<ExportRequest, "nonce">,
): Promise<SealedBundle | Refusal> {
  const signed = await signer.export(request);
  if (isRefusal(signed)) return signed;
  const license = Buffer.from(`${signed.license}\n`);
  const licenseSource: BundleSource = {
    file: {
      path: LICENSE_PATH,
      size: license.length,
      sha256: hash("sha256", license, "hex"),
      kind: "license",
    },
    read: () => [license],
  };
  const all = [licenseSource, ...sources].sort(byPath);
  const manifest = Buffer.from(
    `${signer.signManifest(
      signed,
      all.map(({ file }) => file),
    )}\n`,
  );
  const modifiedAt = new Date(signed.claims.iat * 1_000);
  const entries: TarFile[] = [
    { path: MANIFEST_PATH, sizeBytes: manifest.length, modifiedAt, read: () => [manifest] },
    ...all.map((source) => ({
      path: source.file.path,
      sizeBytes: source.file.size,
      modifiedAt,
      read: () => readCompared(source),
    })),
  ];
  return { signed, sizeBytes: tarSizeOf(entries), read: () => writeTar(entries) };
}

/**
 * Reads every model of a plan and compares it with the registry, before a license is signed for it. Refuses a file that is
 * damaged. `stop` is called after each part that was read: the refusal that it returns ends the work, and so does what it throws.
 */
export async function compareModels(
  { sources }: BundlePlan,
  { stop }: { readonly stop: () => Refusal | undefined },
): Promise<Refusal | undefined> {
  try {
    for (const source of sources) {
      if (source.file.kind !== "model") continue;
      for await (const _ of readCompared(source)) {
        const stopped = stop();
        if (stopped !== undefined) return stopped;
      }
    }
    return undefined;
  } catch (error) {
    return error instanceof BundleBroken ? refuseBundle(error.message) : refuseBucket(error);
  }
}

/** Reads a file, and throws {@linkcode BundleBroken} at its end if its bytes are not those of its SHA-256. */
async function* readCompared({ file, read }: BundleSource): AsyncGenerator<Uint8Array, undefined> {
  const digest = createHash("sha256");
  for await (const chunk of read()) {
    digest.update(chunk);
    yield chunk;
  }
  if (digest.digest("hex") !== file.sha256) throw new BundleBroken(describeDamage(file));
  return undefined;
}

function describeDamage(file: BundledFile): string {
  return file.kind === "model"
    ? `the file of ${file.name} ${file.version} is damaged on this host; see \`claviger models verify\``
    : `${file.path} was changed meanwhile`;
}
