/**
 * Says why a database does not answer or refuses, and what to do: in the same words for `serve`, for commands, for `doctor`
 * and for the log. The codes are those of the driver and the system, and SQLSTATE (PostgreSQL manual, appendix A).
 */
import postgres from "postgres";
import { codeOf, NETWORK_REASONS, type Reasons, reasonOf, whenNotTrusted } from "../base/system_error.ts";
import { causeOf, DatabaseUnavailable, damageOf } from "./errors.ts";

interface FailureCause {
  /** A phrase, without a password. */
  readonly why: string;
  /** What to do, as a phrase; undefined if the code alone does not tell. */
  readonly remedy: string | undefined;
  /** Whether a server refused. Otherwise none could be reached. */
  readonly isRefused: boolean;
  /** Whether only a person can end the cause. */
  readonly needsPerson: boolean;
  /** What the server said if its data is damaged. */
  readonly damage: string | undefined;
}

interface ExplainOptions {
  /** Whether it is the PostgreSQL inside, which has no DATABASE_URL. By default the error says so. */
  readonly isInside?: boolean;
}

/** Why no server can be reached. */
const UNREACHABLE: Reasons = {
  ...NETWORK_REASONS,
  // The driver also gives this code for a refused connection, after the pool has noticed it.
  CONNECTION_CLOSED: "nothing listens there, or it closed the connection",
  CONNECTION_ENDED: "it closed the connection",
  CONNECT_TIMEOUT: "it does not answer",
  ...whenNotTrusted("no trusted authority signed its certificate"),
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host",
  CERT_HAS_EXPIRED: "its certificate has expired",
  CERT_NOT_YET_VALID: "its certificate is not valid yet",
  deadline: "it does not answer in time",
  NOT_PRIMARY: "only a read-only standby answers, and the primary is needed",
};

/** What to do on the server. Other servers than the PostgreSQL inside have {@linkcode REMEDIES_OF_ADDRESS}, too. */
const REMEDIES: Reasons = {
  "55000": "allow them by `alter database … allow_connections true`",
  "25006": "check default_transaction_read_only of the database and its user",
  "53300": "raise the server's max_connections, or close some of its connections",
  "53100": "free some space on the server's disk",
  "57P03": "wait until it has started",
};

/** What to do about the address of a server, its certificate or its users. */
const REMEDIES_OF_ADDRESS: Reasons = {
  ECONNRESET: "check that it runs, and leave sslmode out of DATABASE_URL if it has no TLS",
  ENOTFOUND: "correct the host in DATABASE_URL",
  EAI_AGAIN: "check that this machine can look up names, and the host in DATABASE_URL",
  ...whenNotTrusted("name the authority's certificate with sslrootcert=FILE in DATABASE_URL"),
  ERR_TLS_CERT_ALTNAME_INVALID:
    "name the host of the certificate in DATABASE_URL, or give the server a certificate for this host",
  CERT_HAS_EXPIRED: "renew the certificate of the server",
  CERT_NOT_YET_VALID: "check the clock of this machine, and the certificate of the server",
  NOT_PRIMARY: "name the primary in DATABASE_URL, too",
  "28P01": "check the user and the password in DATABASE_URL",
  "28000": "check the user in DATABASE_URL and the server's pg_hba.conf",
  "3D000": "create it, or correct its name in DATABASE_URL",
  "42501":
    "the user of DATABASE_URL must own the database, or must have the right to create in its schema public",
};

const DAMAGED = "its data is damaged: check its disk, and restore a backup";

/** The codes by which a server refuses a parameter of the address: as `FATAL`, when it connects. */
const WRONG_PARAMETER = /^(42601|42704|22023)$/;

/**
 * The codes with which the PostgreSQL inside refuses a connection because its user, its database or its catalogue is
 * damaged. Another server has them for other causes, too.
 */
const DAMAGED_INSIDE = /^(XX000|22023|28000|3D000|58P01)$/;

/** The codes of faults that only a person can repair: a refused login or right, a missing database, a certificate. */
const NEEDS_PERSON = /^(28|3D|55000|42501|UNABLE_TO_|.*CERT)/;

/** Says why the database does not answer or refuses. Returns undefined for an error that comes from elsewhere. */
export function explainFailure(
  error: unknown,
  { isInside = error instanceof DatabaseUnavailable && error.isInside }: ExplainOptions = {},
): FailureCause | undefined {
  const cause = causeOf(error);
  if (cause instanceof postgres.PostgresError) return explainRefusal(cause, isInside);
  const code = codeOf(cause) ?? codeOf(error);
  if (code === undefined) return undefined;
  const isUnavailable = error instanceof DatabaseUnavailable;
  // Of a socket that is missing. Other errors have this code because of other files.
  const reason = code === "ENOENT" && isUnavailable ? UNREACHABLE.ECONNREFUSED : UNREACHABLE[code];
  if (reason === undefined && !isUnavailable) return undefined;
  return {
    why: reason ?? code,
    remedy: isInside
      ? "check that it runs"
      : (REMEDIES_OF_ADDRESS[code] ?? "check that it runs and that DATABASE_URL is right"),
    isRefused: false,
    needsPerson: NEEDS_PERSON.test(code),
    damage: undefined,
  };
}

function explainRefusal(error: postgres.PostgresError, isInside: boolean): FailureCause {
  const { code, message } = error;
  const isFatal = error.severity === "FATAL";
  const isDamagedInside = isInside && isFatal && DAMAGED_INSIDE.test(code);
  const damage = damageOf(error) ?? (isDamagedInside ? message : undefined);
  const isWrongParameter = !isInside && isFatal && WRONG_PARAMETER.test(code);
  return {
    why: `${message} (${code})`,
    remedy:
      damage !== undefined
        ? DAMAGED
        : isWrongParameter
          ? "check the parameters in DATABASE_URL, such as options="
          : (REMEDIES[code] ?? (isInside ? undefined : REMEDIES_OF_ADDRESS[code])),
    isRefused: true,
    needsPerson: damage !== undefined || isWrongParameter || NEEDS_PERSON.test(code),
    damage,
  };
}

/** Says in one phrase, for the log, why a statement failed, and what to do. */
export function renderFailureCause(error: unknown): string {
  const cause = explainFailure(error);
  if (cause === undefined) return reasonOf(error);
  return cause.remedy === undefined ? cause.why : `${cause.why}; ${cause.remedy}`;
}
