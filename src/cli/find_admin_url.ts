import { isLoopback, originOf } from "../base/listener_url.ts";
import type { Config } from "../installation/config/mod.ts";
import { findServing } from "../installation/mod.ts";

/**
 * Finds the address under which operators reach the service: CLAVIGER_ADMIN_URL, else the listener of the running
 * service, else the listener of the settings. Undefined if there is none.
 *
 * Without CLAVIGER_ADMIN_URL the address must be loopback. The service's user can write another host into the note of
 * the running service, and an operator would enter a login code there.
 */
export function findAdminUrl({ adminUrl, adminListen, dataDir }: Config): string | undefined {
  if (adminUrl !== undefined) return adminUrl;
  const serving = findServing(dataDir);
  const at = serving === undefined ? adminListen : serving.admin;
  if (at === undefined || at.port === 0 || !isLoopback(at.host)) return undefined;
  // On loopback it speaks http, also beside a certificate.
  return originOf(at, false);
}
