import type { Config } from "../config/mod.ts";
import { isLoopback, originOf } from "../endpoints.ts";
import { findServing } from "../installation/mod.ts";

/**
 * Finds the address under which operators reach the service: that of the setting, else the listener of the running
 * service, else the listener of the settings. Undefined if there is none.
 *
 * Without the setting the address must be loopback: the note of the running service belongs to the service's user, who
 * must not lead an operator to another host with a login code.
 */
export function findAdminUrl(config: Config): string | undefined {
  const { adminUrl, adminListen, dataDir } = config;
  if (adminUrl !== undefined) return adminUrl;
  const serving = findServing(dataDir);
  const at = serving === undefined ? adminListen : serving.admin;
  if (at === undefined || at.port === 0 || !isLoopback(at.host)) return undefined;
  return originOf(at, (serving ?? config).tls !== undefined);
}
