import { bracketedHost, isLoopback } from "../endpoints.ts";
import { type Refusal, refuse } from "../refusal.ts";
import type { Config } from "./config.ts";

/**
 * Refuses an admin listener that others could reach without https; undefined if the settings are safe or no such
 * listener is set.
 *
 * Not part of `readConfig`: a command beside the service may not see the certificate that systemd gives to the service.
 */
export function refuseAdminListener({
  adminListen,
  adminUrl,
  tls,
  trustedProxies,
}: Pick<Config, "adminListen" | "adminUrl" | "tls" | "trustedProxies">): Refusal | undefined {
  if (adminListen === undefined) return undefined;
  const { host, port } = adminListen;
  const cannot = (why: string) =>
    refuse("INVALID_REQUEST", `Cannot serve operators at ${bracketedHost(host)}:${port}: ${why}`);
  if (tls !== undefined && adminUrl?.startsWith("http:"))
    return cannot("with a certificate it serves https, so CLAVIGER_ADMIN_URL must begin with https");
  if (isLoopback(host)) return undefined;
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
