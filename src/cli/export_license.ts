/** Signs the license of a key as a file: what `licenses export` and `usage import --license-out` have in common. */
import { toTimestamp } from "../base/calendar.ts";
import { endIfStarted } from "../licensing/mod.ts";
import { createLicenseSigner, renderExport } from "../licensing/signed_licenses/mod.ts";
import type { DatabaseCall } from "./command.ts";
import { openSigningSecrets } from "./commands/signing_keys_commands.ts";
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
  const { config, database, actor, now, print, confirm } = call;
  const foreseen = endIfStarted(await demandKey(call, request.keyUuid, "export license"), now);
  if (foreseen !== undefined) {
    print.note(
      `The license waits for its first use. This file starts its term, which then ends at ${toTimestamp(foreseen)}`,
    );
    await confirm("Start the term and sign the file?");
  }
  const secrets = await openSigningSecrets(call);
  const signer = createLicenseSigner({ ...config, database, secrets });
  return renderExport(orRefuse(await signer.export({ ...request, actor, now })));
}

/** Says what people must know of an exported license. */
export function noteExport({ print }: DatabaseCall, exported: ReturnType<typeof renderExport>): void {
  print.note(
    `The license is valid until ${exported.expires_at}; a revocation of the key does not end it earlier`,
  );
  if (exported.warning !== null) print.note(exported.warning);
  if (exported.term_ends_at !== null)
    print.note(`The term of the license has begun: it ends at ${exported.term_ends_at}`);
}
