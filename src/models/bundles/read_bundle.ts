import { createHash } from "node:crypto";
import { NotCanonicalTar, type ReadTarFile, readTar } from "../../base/ustar.ts";
import {
  type BundledFile,
  type Checked,
  checkLicense,
  isLicenseOf,
  MANIFEST_PATH,
  type Manifest,
  MOST_CHARACTERS,
  verifyManifest,
} from "../../licensing/signed_licenses/mod.ts";

interface ReadOptions {
  /** The public keys to trust. */
  readonly trusted: readonly string[];
  readonly audience?: string | undefined;
  readonly now: Date;
}

type ReadFile = BundledFile & {
  /** Whether its bytes are those that the manifest names. */
  readonly isRight: boolean;
};

export type ReadBundle =
  | {
      readonly ok: true;
      readonly kid: string;
      readonly manifest: Manifest;
      readonly files: readonly ReadFile[];
      readonly license: Extract<Checked, { readonly ok: true }> | undefined;
      /** Why the bundle is not good, if it is not. */
      readonly why: string | undefined;
    }
  | { readonly ok: false; readonly error: string };

/** Ends the reading; the message says why. */
class NoBundle extends Error {}

/**
 * Reads a bundle and verifies everything in it: the manifest with the trusted keys, each file with the manifest, and the
 * license as a client does. Accepts exactly the bytes that `sealBundle` writes for such a manifest. A file with other
 * contents is named; anything else that is wrong ends the reading. Memory is bounded, whatever the bytes are.
 */
export async function readBundle(
  bytes: AsyncIterable<Uint8Array>,
  options: ReadOptions,
): Promise<ReadBundle> {
  const entries = readTar(bytes);
  try {
    return await readEntries(entries, options);
  } catch (error) {
    if (error instanceof NoBundle || error instanceof NotCanonicalTar)
      return { ok: false, error: `it is no genuine bundle: ${error.message}` };
    throw error;
  } finally {
    await entries.return(undefined);
  }
}

async function readEntries(
  entries: AsyncGenerator<ReadTarFile, undefined>,
  { trusted, audience, now }: ReadOptions,
): Promise<ReadBundle> {
  const first = await next(entries, MANIFEST_PATH);
  const jws = await readSigned(first, MOST_CHARACTERS.manifest);
  const verified = verifyManifest(jws.text, trusted);
  if (!verified.ok) throw new NoBundle(`of its manifest, ${verified.error}`);
  const { manifest, kid } = verified;
  const checkTime = ({ modifiedAt }: ReadTarFile) => {
    if (modifiedAt.getTime() !== manifest.iat * 1_000)
      throw new NoBundle("a file has another time than its manifest");
  };
  checkTime(first);
  const files: ReadFile[] = [];
  let license: Checked | undefined;
  for (const file of manifest.files) {
    const entry = await next(entries, file.path);
    checkTime(entry);
    if (entry.sizeBytes !== file.size)
      throw new NoBundle(`${file.path} has another size than its manifest says`);
    if (file.kind !== "license") {
      files.push({ ...file, isRight: (await hashOf(entry.content())) === file.sha256 });
      continue;
    }
    const signed = await readSigned(entry, MOST_CHARACTERS.license);
    files.push({ ...file, isRight: signed.sha256 === file.sha256 });
    license = checkLicense(signed.text, { trusted, now, ...(audience !== undefined && { audience }) });
    if (license.ok && !isLicenseOf(manifest, license.claims))
      license = { ok: false, error: "it is another license than that of the manifest" };
  }
  if (!(await entries.next()).done) throw new NoBundle("it has a file that its manifest does not name");
  const wrong = files.find(({ isRight }) => !isRight);
  return {
    ok: true,
    kid,
    manifest,
    files,
    license: license?.ok ? license : undefined,
    why: wrong === undefined ? whyNot(license) : `${wrong.path} is not what the manifest says`,
  };
}

function whyNot(license: Checked | undefined): string | undefined {
  if (license === undefined) return "it has no license";
  const why = license.ok ? license.why : license.error;
  return why && `of its license, ${why}`;
}

async function next(entries: AsyncGenerator<ReadTarFile, undefined>, path: string): Promise<ReadTarFile> {
  const { value } = await entries.next();
  if (value?.path !== path) throw new NoBundle(`${path} is not where its manifest has it`);
  return value;
}

/** Reads a signed text, which ends with one newline. */
async function readSigned(entry: ReadTarFile, mostCharacters: number) {
  if (entry.sizeBytes > mostCharacters + 1) throw new NoBundle(`${entry.path} is too large`);
  const parts: Uint8Array[] = [];
  // A chunk is valid until the next one is read.
  for await (const part of entry.content()) parts.push(part.slice());
  const bytes = Buffer.concat(parts);
  const text = bytes.toString("latin1");
  if (!text.endsWith("\n")) throw new NoBundle(`${entry.path} has no newline at its end`);
  return { text: text.slice(0, -1), sha256: createHash("sha256").update(bytes).digest("hex") };
}

async function hashOf(content: AsyncIterable<Uint8Array>): Promise<string> {
  const digest = createHash("sha256");
  for await (const chunk of content) digest.update(chunk);
  return digest.digest("hex");
}
