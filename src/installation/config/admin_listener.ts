import { isIPv4 } from "node:net";
import { bracketedHost, isLoopback } from "../../base/listener_url.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Config } from "./config.ts";
import type { ListenAddress } from "./setting_rules.ts";

type Listeners = Pick<Config, "host" | "port" | "adminListen">;

/** Refuses an admin listener at the address for clients; undefined if the addresses differ. */
export function refuseSameAddress({ host, port, adminListen }: Listeners): Refusal | undefined {
  if (adminListen === undefined || port === 0 || port !== adminListen.port) return undefined;
  const hosts = [host, adminListen.host];
  const isSame =
    host === adminListen.host || (hosts.includes("0.0.0.0") && hosts.every((each) => isIPv4(each)));
  return isSame
    ? cannotServe(
        adminListen,
        "clients are served at the same address; choose another with --admin-listen or CLAVIGER_ADMIN_LISTEN",
      )
    : undefined;
}

/**
 * Refuses an admin listener at the address for clients, and one that others could reach without https; undefined if the
 * settings are safe or no such listener is set.
 *
 * Not part of `readConfig`: a command may be unable to see the certificate that systemd gives to the service.
 */
export function refuseAdminListener(
  config: Listeners & Pick<Config, "adminUrl" | "tls" | "trustedProxies">,
): Refusal | undefined {
  const { adminListen, adminUrl, tls, trustedProxies } = config;
  if (adminListen === undefined) return undefined;
  const same = refuseSameAddress(config);
  if (same !== undefined) return same;
  const cannot = (why: string) => cannotServe(adminListen, why);
  if (isLoopback(adminListen.host)) return undefined;
  if (!adminUrl?.startsWith("https:")) {
    return cannot(
      "an address that other machines reach needs CLAVIGER_ADMIN_URL with https, such as " +
        "https://admin.example.org; set it, or listen on 127.0.0.1 and use `ssh -L`",
    );
  }
  if (tls === undefined && trustedProxies.length === 0) {
    return cannot(
      "tokens and cookies would reach it unencrypted; set CLAVIGER_TLS_CERT and CLAVIGER_TLS_KEY, or name the " +
        "proxy that serves https in CLAVIGER_TRUSTED_PROXIES",
    );
  }
  return undefined;
}

function cannotServe({ host, port }: ListenAddress, why: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot serve operators at ${bracketedHost(host)}:${port}: ${why}`);
}
