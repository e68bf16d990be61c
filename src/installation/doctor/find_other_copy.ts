import type { TlsFiles } from "../../base/tls/mod.ts";
import type { ConfigSource } from "../config/mod.ts";
import { isReadable } from "./finding.ts";

/**
 * Finds a file of TLS for which the service gets the copy of another file from its unit; undefined if there is none. The
 * service uses the copies only if its user, who runs this command, may not read the files that the settings name.
 */
export function findOtherCopy({ unit }: Pick<ConfigSource, "unit">, tls: TlsFiles | undefined) {
  if (unit === undefined || tls === undefined) return undefined;
  const files = [
    { passed: unit.credentials.get("claviger-tls-cert"), named: tls.certFile },
    { passed: unit.credentials.get("claviger-tls-key"), named: tls.keyFile },
  ];
  const areUsed =
    files.every(({ passed }) => passed !== undefined) && !files.every(({ named }) => isReadable(named));
  return areUsed ? files.find(({ passed, named }) => passed !== named) : undefined;
}
