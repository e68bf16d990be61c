/** The certificate of a running service, and its replacement after a reload. */
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { Listener } from "../platform/mod.ts";
import { isRefusal } from "../refusal.ts";
import { reasonOf } from "../system_error.ts";
import { type LoadedCertificate, loadCertificate, type TlsFiles, tlsWarning } from "./tls_files.ts";

interface CertificateOptions {
  /** The files that a reload reads again. */
  readonly files: TlsFiles;
  /** The listeners that use the certificate. */
  readonly listeners: readonly Listener[];
  readonly clock: Clock;
  readonly log: Log;
}

export type Certificate = ReturnType<typeof createCertificate>;

/** Creates the part that warns before the certificate expires, and replaces it on request. */
export function createCertificate(
  first: LoadedCertificate,
  { files, listeners, clock, log }: CertificateOptions,
) {
  let shown = first;
  let isStopped = false;

  function warn(): void {
    const warning = tlsWarning(shown, clock.now());
    if (warning !== undefined) log.warn(warning);
  }

  async function reload(): Promise<void> {
    if (isStopped) return;
    const found = loadCertificate(files);
    const refusal = isRefusal(found) ? found.sentence : whyWorse(found, shown, clock.now());
    if (refusal !== undefined) return keep(refusal);
    if (isRefusal(found) || found.fingerprint === shown.fingerprint) {
      if (files.isCopy) log.warn(COPIED);
      else log.info("The certificate is the same as before");
      return;
    }
    try {
      for (const listener of listeners) {
        if (listener.renewTls === undefined)
          return keep("a certificate cannot be changed here: restart the service");
        await listener.renewTls(found);
      }
    } catch (error) {
      return keep(reasonOf(error));
    }
    shown = found;
    log.info("New connections get the new certificate", {
      fingerprint: found.fingerprint,
      expiresAt: found.expiresAt.toISOString(),
    });
    warn();
  }

  function keep(reason: string): void {
    log.error("The certificate was not changed: the one before is kept", { reason });
  }
  return {
    /** Starts to warn in the log when the certificate must be renewed. */
    async start() {
      warn();
    },
    /** Stops: the listeners get no other certificate from now on. */
    async stop() {
      isStopped = true;
    },
    /** When the certificate that new connections get expires. */
    expiresAt: () => shown.expiresAt,
    /** Reads the files again. If they cannot be used, the old certificate stays. The log has the outcome. */
    reload,
  };
}

const COPIED =
  "A reload cannot change the certificate: systemd copied it when it started the service; after a renewal run " +
  "`systemctl restart claviger`";

/** A certificate that clients refuse must not replace one that they accept. */
function whyWorse(found: LoadedCertificate, shown: LoadedCertificate, now: Date): string | undefined {
  const isGood = ({ validFrom, expiresAt }: LoadedCertificate) => validFrom <= now && expiresAt > now;
  return isGood(shown) && !isGood(found) ? tlsWarning(found, now) : undefined;
}
