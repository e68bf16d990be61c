/**
 * Reads `sslmode`, `sslrootcert` and `channel_binding` of `DATABASE_URL`, which protect the connection to an external
 * database. The names are libpq's (https://www.postgresql.org/docs/18/libpq-ssl.html). Without `sslmode` the connection is
 * not encrypted.
 */
import { refuseParameters } from "./database_parameters.ts";
import type { DatabaseUrl } from "./database_url.ts";

/**
 * - `plain`: not encrypted; an attacker on the network path can read and change the data.
 * - `opportunistic`: encrypted when the server offers it; an attacker on the network path can prevent that.
 * - `unverified`: encrypted, but any server is accepted.
 * - `verified`: encrypted, and the server's certificate must be valid for the host of the address.
 */
type Protection = "plain" | "opportunistic" | "unverified" | "verified";

/** Two differences from libpq: `verify-ca` also checks the host, and `allow` always encrypts, as `require` does. */
const MODES: Readonly<Record<string, Protection>> = {
  disable: "plain",
  prefer: "opportunistic",
  allow: "unverified",
  require: "unverified",
  "verify-ca": "verified",
  "verify-full": "verified",
  // Values of the driver's own parameter `ssl`.
  false: "plain",
  true: "verified",
};

/**
 * Reads the parameters of an address. Returns the protection, and the file with the only certificates to trust; without
 * that file the system's certificates are trusted. Returns a text with the reason if the parameters cannot be used; it
 * repeats no value.
 */
export function parseDatabaseTls(url: DatabaseUrl) {
  const wrong = refuseParameters(url);
  if (wrong !== undefined) return wrong;
  const query = url.first.searchParams;
  const rootCert = query.get("sslrootcert") ?? undefined;
  const mode =
    query.get("sslmode") ?? query.get("ssl") ?? (rootCert === "system" ? "verify-full" : "disable");
  const protection = Object.hasOwn(MODES, mode) ? MODES[mode] : undefined;
  if (protection === undefined) {
    return "its sslmode must be one of disable, allow, prefer, require, verify-ca and verify-full";
  }
  // The driver has no channel binding. A verified certificate protects from the same attacks.
  if (query.get("channel_binding") === "require" && protection !== "verified")
    return "its channel_binding=require needs sslmode=verify-full";
  if (rootCert === undefined) return { protection, rootCertFile: undefined };
  if (protection !== "verified") return "its sslrootcert needs sslmode=verify-full";
  if (rootCert === "system") return { protection, rootCertFile: undefined };
  if (!rootCert.startsWith("/")) return "its sslrootcert must be the absolute path of a file, or system";
  return { protection, rootCertFile: rootCert };
}
