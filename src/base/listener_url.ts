/** The URLs of listeners, and which of them only this machine reaches. */

/** Returns a host as a URL contains it: an IPv6 address gets brackets. */
export function bracketedHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Returns the URL of a listener without a path, such as `https://127.0.0.1:8443`. */
export function originOf(
  { host, port }: { readonly host: string; readonly port: number },
  isTls: boolean,
): string {
  return `${isTls ? "https" : "http"}://${bracketedHost(host)}:${port}`;
}

/** Returns the host by which this machine reaches a listener: the loopback address for a listener on all addresses. */
export function toReachedHost(host: string): string {
  return host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
}

/** Returns whether only this machine reaches a host: `localhost` or a loopback address, with or without brackets. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);
}

/** Returns whether other machines can reach the service under an address. */
export function isReachedByOthers(url: string): boolean {
  return !isLoopback(new URL(url).hostname);
}

/**
 * Returns whether the listener for operators speaks https. On loopback it speaks http also beside a certificate, because
 * through `ssh -L` browsers reach it by a name that the certificate does not have. CLAVIGER_ADMIN_URL changes that.
 */
export function isAdminTls(
  { host }: { readonly host: string },
  { adminUrl, tls }: { readonly adminUrl: string | undefined; readonly tls?: unknown },
): boolean {
  return tls !== undefined && (!isLoopback(host) || adminUrl?.startsWith("https:") === true);
}
