/**
 * How the connection to an external database is protected: what `sslmode` and `sslrootcert` of `DATABASE_URL` mean
 * here. The names are libpq's (https://www.postgresql.org/docs/18/libpq-ssl.html); without `sslmode` nothing is
 * encrypted.
 */
import type { DatabaseUrl } from "./database_url.ts";

/**
 * - `plain`: not encrypted; anybody on the way reads and changes it.
 * - `opportunistic`: encrypted where the server offers it, which anybody on the way can prevent.
 * - `unverified`: encrypted, but with whoever answers.
 * - `verified`: encrypted, with a server whose certificate is good for the host of the address.
 */
export type Protection = "plain" | "opportunistic" | "unverified" | "verified";

export interface DatabaseTls {
  readonly protection: Protection;
  /** The file of the only certificates to trust; undefined for the system's. */
  readonly rootCertFile: string | undefined;
}

/** `verify-ca` checks the name too: more than it asks for. `allow` encrypts, as `require` does. */
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

/** Reads the parameters of an address; gives why they cannot be used as text, which repeats no value. */
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
