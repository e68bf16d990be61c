/**
 * How `sslmode` and `sslrootcert` of `DATABASE_URL` protect the connection to an external database. The names are
 * libpq's (https://www.postgresql.org/docs/18/libpq-ssl.html); without `sslmode` nothing is
 * encrypted.
 */
import type { DatabaseUrl } from "./database_url.ts";

/**
 * - `plain`: not encrypted; anybody on the network path can read and change the data.
 * - `opportunistic`: encrypted when the server offers it; anybody on the network path can prevent that.
 * - `unverified`: encrypted, but any server is accepted.
 * - `verified`: encrypted, and the server's certificate must be valid for the host of the address.
 */
export type Protection = "plain" | "opportunistic" | "unverified" | "verified";

export interface DatabaseTls {
  readonly protection: Protection;
  /** The file of the only certificates to trust; undefined for the system's. */
  readonly rootCertFile: string | undefined;
}

/** `verify-ca` checks the host too, which libpq's does not. `allow` always encrypts, as `require` does. */
const MODES: Readonly<Record<string, Protection>> = {
  disable: "plain",
  prefer: "opportunistic",
  allow: "unverified",
  require: "unverified",
  "verify-ca": "verified",
  "verify-full": "verified",
  // As the driver's own parameter `ssl` has them.
  false: "plain",
  true: "verified",
};

/** Reads the parameters of an address. A text says why they cannot be used, without repeating a value. */
export function parseDatabaseTls({ first: { searchParams: query } }: DatabaseUrl): DatabaseTls | string {
  const rootCert = query.get("sslrootcert") ?? undefined;
  const mode =
    query.get("sslmode") ?? query.get("ssl") ?? (rootCert === "system" ? "verify-full" : "disable");
  const protection = Object.hasOwn(MODES, mode) ? MODES[mode] : undefined;
  if (protection === undefined) {
    return "its sslmode must be one of disable, allow, prefer, require, verify-ca and verify-full";
  }
  if (rootCert === undefined) return { protection, rootCertFile: undefined };
  if (protection !== "verified") return "its sslrootcert needs sslmode=verify-full";
  if (rootCert === "system") return { protection, rootCertFile: undefined };
  if (!rootCert.startsWith("/")) return "its sslrootcert must be the absolute path of a file, or system";
  return { protection, rootCertFile: rootCert };
}
