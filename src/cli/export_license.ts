/** Signs the license of a key as a file: what `licenses export` and `usage import --license-out` have in common. */
import { createLicenseSigner, type LicenseSigner, renderExport } from "../licensing/signed_licenses/mod.ts";
import type { DatabaseCall } from "./command.ts";
import { openSigningSecrets } from "./commands/signing_keys_commands.ts";
import { announceTerm } from "./export_notes.ts";
import { demandKey } from "./find_named.ts";
import { orRefuse } from "./run.ts";

interface ExportedKey {
  readonly keyUuid: string;
  readonly days: number | undefined;
  readonly fingerprint: string | undefined;
  readonly nonce?: string | undefined;
}

/** Signs the license of a key; asks first if that starts its term. */
export async function exportLicense(call: DatabaseCall, request: ExportedKey) {
  const { now, print, confirm } = call;
  const key = await demandKey(call, request.keyUuid, "export license");
  if (announceTerm(print, key, now)) await confirm("Start the term and sign the file?");
  const { actor } = call;
  return renderExport(orRefuse(await (await openSigner(call)).export({ ...request, actor, now })));
}

/** Opens the signer of licenses. */
export async function openSigner(call: DatabaseCall): Promise<LicenseSigner> {
  const { config, database } = call;
  return createLicenseSigner({ ...config, database, secrets: await openSigningSecrets(call) });
}
