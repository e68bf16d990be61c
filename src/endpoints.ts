/** Endpoints: where one listens, as text, and the names of those that have a limit. */

/** A host as it stands in a URL: an IPv6 address is put in brackets. */
export function bracketedHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** The URL of a listener without a path, such as `https://127.0.0.1:8443`. */
export function originOf(
  { host, port }: { readonly host: string; readonly port: number },
  isTls: boolean,
): string {
  return `${isTls ? "https" : "http"}://${bracketedHost(host)}:${port}`;
}

/** The endpoints that have a window, by the names that the limits' settings have for them. */
export type LimitedEndpoint =
  | "validate"
  | "refresh"
  | "revoke"
  | "repo_token"
  | "models"
  | "downloads"
  | "analytics";
