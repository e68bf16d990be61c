/** The public keys that a command trusts when it verifies a license or a bundle. */
import { resolve } from "node:path";
import { readNamedFile } from "../base/read_regular_file.ts";
import { LICENSE_FILE_LIMIT_BYTES, listSigningKeys, parseJwks } from "../licensing/signed_licenses/mod.ts";
import { renderFileFailure } from "./failures.ts";
import type { Invocation } from "./invocation.ts";
import { type InstallationFlags, PATH } from "./options.ts";
import { option } from "./parameter.ts";
import { CommandRefused, readSettings, withDatabase } from "./run.ts";

export const TRUST_OPTIONS = {
  jwks: option(
    "the public keys to trust, a JWK set; without it, the command trusts the keys of this installation",
    PATH,
    { as: "file" },
  ),
};

interface Trust {
  readonly trusted: readonly string[];
  /** Undefined with `--jwks`: then no audience is known. */
  readonly audience?: string;
}

/** Returns the keys of `--jwks`, or else those of the installation. `file` is what they verify. */
export async function findTrust(
  invocation: Invocation,
  {
    file,
    jwks,
    place,
  }: { readonly file: string; readonly jwks?: string | undefined; readonly place: InstallationFlags },
): Promise<Trust> {
  if (jwks === undefined) return await trustInstallation(invocation, place);
  const trusted = parseJwks(readLicenseText(invocation, jwks));
  if (trusted !== undefined) return { trusted };
  throw new CommandRefused(
    `Cannot verify ${file}: ${jwks} is not a JWK set; \`claviger licenses public-keys\` prints one`,
  );
}

/** Trusts the public keys of the installation, without the retired ones. Its refusals also name `--jwks`. */
async function trustInstallation(invocation: Invocation, place: InstallationFlags): Promise<Trust> {
  const config = readSettings(invocation, place);
  try {
    const keys = await withDatabase(invocation, { config }, ({ database }) => listSigningKeys(database));
    return { trusted: keys.map(({ publicKey }) => publicKey), audience: config.brand.name };
  } catch (error) {
    if (!(error instanceof CommandRefused)) throw error;
    throw new CommandRefused(`${error.message}; or give the public keys with --jwks`);
  }
}

/** Reads a file with a license or with public keys. */
export function readLicenseText({ workingFolder }: Invocation, file: string): string {
  try {
    return readNamedFile(resolve(workingFolder, file), LICENSE_FILE_LIMIT_BYTES);
  } catch (error) {
    throw new CommandRefused(`Cannot read ${file}: ${renderFileFailure(error)}`);
  }
}
