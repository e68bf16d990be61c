import { isReadable } from "../../base/read_regular_file.ts";
import type { TlsFiles } from "../../base/tls/mod.ts";
import type { ConfigSource } from "../config/mod.ts";

/**
 * Finds a file of TLS for which the service gets the copy of another file from its unit. Returns the path of the copied file
 * and the path that the settings name; undefined if there is no such file. The service uses the copies only if its user, who
 * runs this command, may not read the files that the settings name; so root never finds one.
 */
export function findOtherCopy(
  { unit }: Pick<ConfigSource, "unit">,
  tls: TlsFiles | undefined,
): { readonly passed: string | undefined; readonly named: string } | undefined {
  if (unit === undefined || tls === undefined) return undefined;
  const files = [
    { passed: unit.credentials.get("claviger-tls-cert"), named: tls.certFile },
    { passed: unit.credentials.get("claviger-tls-key"), named: tls.keyFile },
  ];
  const areUsed =
    files.every(({ passed }) => passed !== undefined) && !files.every(({ named }) => isReadable(named));
  return areUsed ? files.find(({ passed, named }) => passed !== named) : undefined;
}
