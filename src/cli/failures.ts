/** Renders exceptions as one line for the operator: what failed, where, why, and what to check. */

import { type Refusal, refuse } from "../base/refusal.ts";
import {
  codeOf,
  FILE_REASONS,
  NETWORK_REASONS,
  type Reasons,
  reasonOf,
  whenNotTrusted,
} from "../base/system_error.ts";
import { refuseDamaged } from "../database/embedded/mod.ts";
import { causeOf, DatabaseUnavailable, damageOf, nameOfDatabase } from "../database/mod.ts";
import type { Config } from "../installation/config/mod.ts";

/** The reason why a server cannot be reached, by the system's or the driver's code. */
const UNREACHABLE: Reasons = {
  ...NETWORK_REASONS,
  ECONNRESET: "it closed the connection; if it has no TLS, leave sslmode out of DATABASE_URL",
  // The driver also gives this code for a refused connection, after the pool has noticed it.
  CONNECTION_CLOSED: "nothing listens there, or it closed the connection",
  CONNECTION_ENDED: "it closed the connection",
  CONNECT_TIMEOUT: "it does not answer",
  ...whenNotTrusted(
    "no trusted authority signed its certificate; name the authority's certificate with sslrootcert=FILE",
  ),
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host",
  CERT_HAS_EXPIRED: "its certificate has expired",
  deadline: "it does not answer in time",
  NOT_PRIMARY: "only a read-only standby answers, and the primary is needed",
};

/** The remedy of a server's refusal, by SQLSTATE. Source: PostgreSQL manual, appendix A. */
const REMEDIES: Reasons = {
  "28P01": "check the user and the password in DATABASE_URL",
  "28000": "check the user in DATABASE_URL and the server's pg_hba.conf",
  "3D000": "create it, or correct its name in DATABASE_URL",
  "55000": "allow them by `alter database … allow_connections true`",
  "25006": "check default_transaction_read_only of the database and its user",
  "42501":
    "the user of DATABASE_URL must own the database, or must have the right to create in its schema public",
  "53300": "raise the server's max_connections, or close some of its connections",
  "53100": "free some space on the server's disk",
  "57P03": "wait until it has started",
};

const DAMAGED = "its data is damaged: check its disk, and restore a backup";

/** The codes by which a server refuses a parameter of the address: as `FATAL`, when it connects. */
const WRONG_PARAMETER = /^(42601|42704|22023)$/;

/**
 * The codes with which the PostgreSQL inside refuses a connection because of its data: its user, its database or its
 * catalogue is damaged. There only damaged data causes these codes.
 */
const DAMAGED_INSIDE = /^(XX000|22023|28000|3D000|58P01)$/;

/** The codes of faults that only a person can repair: a refused login or right, a missing database, a certificate. */
const NEEDS_PERSON = /^(28|3D|55000|42501|UNABLE_TO_|.*CERT)/;

/**
 * Refuses for an error of the database or of its connection, never with a password. Returns undefined for any other
 * error.
 */
export function refuseDatabaseFailure(error: unknown, config: Config): Refusal | undefined {
  const where =
    config.databaseUrl === undefined ? `in ${config.dataDir}` : `at ${nameOfDatabase(config.databaseUrl)}`;
  const cause = causeOf(error);
  const code = codeOf(cause) ?? codeOf(error);
  if (code === undefined) return undefined;
  const isFatal = cause instanceof Error && "severity" in cause && cause.severity === "FATAL";
  const inside = config.databaseUrl === undefined && isFatal && DAMAGED_INSIDE.test(code);
  const damage = damageOf(error) ?? (inside ? cause.message : undefined);
  if (damage !== undefined && config.databaseUrl === undefined) return refuseDamaged(config.dataDir, damage);
  const isWrongParameter = WRONG_PARAMETER.test(code) && isFatal;
  const kind =
    isWrongParameter || NEEDS_PERSON.test(code) || damage !== undefined
      ? "INVALID_REQUEST"
      : "SERVICE_UNAVAILABLE";
  if (cause instanceof Error && cause.name === "PostgresError") {
    const remedy = isWrongParameter
      ? "check the parameters in DATABASE_URL, such as options="
      : damage === undefined
        ? REMEDIES[code]
        : DAMAGED;
    return refuse(
      kind,
      `The database ${where} refused: ${cause.message} (${code})${remedy === undefined ? "" : `; ${remedy}`}`,
    );
  }
  const reason = UNREACHABLE[code];
  if (reason !== undefined || error instanceof DatabaseUnavailable) {
    return refuse(
      kind,
      `Cannot reach the database ${where}: ${reason ?? code}; check that it runs${
        config.databaseUrl === undefined ? "" : " and that DATABASE_URL is right"
      }`,
    );
  }
  return undefined;
}

/** Renders any other exception as one line. */
export function renderFailure(error: unknown): string {
  const message = reasonOf(error);
  const code = codeOf(error);
  const ending = code === undefined || message.includes(code) ? "" : ` (${code})`;
  return `${message.trim() || "The command failed"}${ending}`;
}

/** Says why a file cannot be read, and what the operator can do. */
export function renderFileFailure(error: unknown): string {
  const reasons: Reasons = FILE_REASONS;
  return reasons[codeOf(error) ?? ""] ?? renderFailure(error);
}
