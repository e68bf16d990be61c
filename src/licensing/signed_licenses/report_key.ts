/**
 * The key with which a machine without a network signs the reports of its use. An exported license carries it, so no API key
 * has to travel into a closed network. It is derived from the root secret, the license and the machine: it is stored nowhere,
 * and it survives a rotation, an expiry and a revocation. Whoever has the license file has the key.
 */
import { toId } from "../../base/ids.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import type { MachineName } from "../machines/mod.ts";

/** Returns the report key of a machine: 32 bytes as base64url. */
export type ReportKeys = (machine: MachineName) => string;

/** Creates the function that derives report keys. */
export function createReportKeys(secrets: Pick<Secrets, "signer">): ReportKeys {
  const { sign } = secrets.signer("usage-report");
  return ({ licenseUuid, hash }) => sign([`${toId("lic", licenseUuid)} ${hash}`]);
}

/** Returns the claims of a license as people and logs may see them: without the key with which its machine signs reports. */
export function withoutReportKey(
  claims: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const { report, ...rest } = claims;
  if (typeof report !== "object" || report === null || !("machine" in report)) return rest;
  return { ...rest, report: { machine: report.machine } };
}
