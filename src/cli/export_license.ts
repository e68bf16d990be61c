/** Signs licenses of a key for customers without a network: what the commands that do it have in common. */
import { counted } from "../base/render_count.ts";
import type { KeySummary } from "../licensing/keys/mod.ts";
import {
  createLicenseSigner,
  DAYS_BY_DEFAULT,
  type ForeseenMachine,
  type LicenseSigner,
  prepareSigningKeys,
  renderExport,
  SIGNED_DAYS,
} from "../licensing/signed_licenses/mod.ts";
import type { DatabaseCall } from "./command.ts";
import { openSigningSecrets } from "./commands/signing_keys_commands.ts";
import { announcePlaces, announceTerm } from "./export_notes.ts";
import { demandKey } from "./find_named.ts";
import { option } from "./parameter.ts";
import { openProvenSecrets, orRefuse } from "./run.ts";

/** The option that says for how many days. */
export const EXPORT_DAYS = option(`how many days the license is valid; ${DAYS_BY_DEFAULT}`, SIGNED_DAYS, {
  as: "n",
});

interface ForeseenExport {
  readonly signer: LicenseSigner;
  /** What the export for each machine will do; empty for a license without a machine. */
  readonly foreseen: readonly ForeseenMachine[];
  /** Says what the licenses start and take, asks at a terminal whether to sign them, and makes the signing keys ready. */
  confirm(): Promise<void>;
}

/** Foresees licenses of a key, one for each machine or one without a machine. Refuses what their export would be refused for. */
export async function foreseeLicenses(
  call: DatabaseCall,
  key: KeySummary,
  { days, fingerprints }: { readonly days: number | undefined; readonly fingerprints: readonly string[] },
): Promise<ForeseenExport> {
  const { config, database, now, print } = call;
  const secrets = await openProvenSecrets(call);
  const signer = createLicenseSigner({ ...config, database, secrets });
  const foreseen = orRefuse(await signer.foresee(key, { days, fingerprints, now }));
  const signed = foreseen.filter(({ refusal }) => refusal === undefined).length;
  return {
    signer,
    foreseen,
    async confirm() {
      const startsTerm = announceTerm(print, key, now);
      const takesPlaces = announcePlaces(print, foreseen);
      const licenses = counted(fingerprints.length === 0 ? 1 : signed, "license");
      if (startsTerm || takesPlaces) await call.confirm(`Sign ${licenses}?`);
      await prepareSigningKeys(database, { ...call, secrets });
    },
  };
}

interface ExportedKey {
  readonly keyUuid: string;
  readonly days: number | undefined;
  readonly fingerprint: string | undefined;
  readonly nonce?: string | undefined;
}

/** Signs the license of a key; says before what that starts and takes, and asks then. */
export async function exportLicense(call: DatabaseCall, request: ExportedKey) {
  const { actor, now } = call;
  const { keyUuid, days, fingerprint } = request;
  const key = await demandKey(call, keyUuid, "export license");
  const fingerprints = fingerprint === undefined ? [] : [fingerprint];
  const { signer, confirm } = await foreseeLicenses(call, key, { days, fingerprints });
  await confirm();
  return renderExport(orRefuse(await signer.export({ ...request, actor, now })));
}

/** Opens the signer of licenses. */
export async function openSigner(call: DatabaseCall): Promise<LicenseSigner> {
  const { config, database } = call;
  return createLicenseSigner({ ...config, database, secrets: await openSigningSecrets(call) });
}
