/**
 * Distinguishes two kinds of errors: "the database cannot answer now", and errors of a statement or its values.
 *
 * The first kind becomes {@linkcode DatabaseUnavailable}, whatever name the driver gave it. All other errors
 * stay as the driver threw them.
 */
import postgres from "postgres";
import { codeOf } from "../base/system_error.ts";

interface UnavailableOptions extends ErrorOptions {
  readonly isInside?: boolean;
}

/**
 * The database did not answer in time or could not be reached. The statement may have taken effect.
 */
export class DatabaseUnavailable extends Error {
  override readonly name = "DatabaseUnavailable";
  /** A SQLSTATE, or a code of the driver or the system, such as `57P01` or `ECONNREFUSED`. */
  readonly code: string;
  /** Whether it is the PostgreSQL inside. */
  readonly isInside: boolean;

  constructor(code: string, { isInside = false, ...options }: UnavailableOptions = {}) {
    super(`The database does not answer: ${code}`, options);
    this.code = code;
    this.isInside = isInside;
  }
}

/** Returns the error of the server, the driver or the system if it made the database unavailable, otherwise the error. */
export function causeOf(error: unknown): unknown {
  return error instanceof DatabaseUnavailable ? (error.cause ?? error) : error;
}

/** Tells whether the connection was lost while a statement ran, or the server ended the connection. */
export function isLost({ code }: DatabaseUnavailable): boolean {
  return LOST.has(code);
}

const LOST: ReadonlySet<string> = new Set(["CONNECTION_CLOSED", "ECONNRESET", "EPIPE", "57P01", "57P02"]);

/** Tells whether the server stopped a statement at its limit. The statement had no effect. */
export function isStopped(error: unknown): boolean {
  return error instanceof DatabaseUnavailable && error.code === "57014";
}

/** Returns the server's error if the server could not write: its disk is full or fails, or it is read-only. */
export function refusedWrite(
  error: unknown,
): { readonly message: string; readonly code: string } | undefined {
  const cause = causeOf(error);
  return cause instanceof postgres.PostgresError && /^(53100|58030|25006)$/.test(cause.code)
    ? cause
    : undefined;
}

/**
 * Returns what the server said if its data is damaged: a page or an index that cannot be right, or a missing file of
 * the data; undefined for every other error.
 */
export function damageOf(error: unknown): string | undefined {
  const cause = causeOf(error);
  if (!(cause instanceof postgres.PostgresError)) return undefined;
  const { code, message } = cause;
  const namesData = () => [...message.matchAll(/"([^"]*)"/g)].some(([, path = ""]) => isPathOfData(path));
  return isDamageCode(code) || (code === "58P01" && namesData()) ? message : undefined;
}

/** Tells whether a SQLSTATE is data_corrupted or index_corrupted. */
export function isDamageCode(code: string): boolean {
  return /^XX00[12]$/.test(code);
}

/** Tells whether a path leads to the data, as the server names its files: relative to its folder. */
export function isPathOfData(path: string): boolean {
  return /^(base|global|pg_\w+)(\/|$)/.test(path);
}

/** Tells whether the data caused the error: a value out of range or a broken constraint (SQLSTATE 22 and 23). */
export function isDataError(error: unknown): boolean {
  return error instanceof postgres.PostgresError && /^2[23]/.test(error.code);
}

/** Returns the name of the constraint that refused a row; undefined for every other error. */
export function constraintOf(error: unknown): string | undefined {
  return error instanceof postgres.PostgresError ? error.constraint_name : undefined;
}

/** Tells whether a statement waited longer than `lock_timeout` for a lock that another session held. */
export function isLockTimeout(error: unknown): boolean {
  const cause = causeOf(error);
  return cause instanceof postgres.PostgresError && cause.code === "55P03";
}

/**
 * Classes of SQLSTATE whose cause is the state of the server, not the statement: connection (08), a read-only
 * standby (25006), a refused login or a missing database (28, 3D), deadlock and serialization (40), resources,
 * including a full disk (53), locks (55), an operator's intervention, including `statement_timeout` (57), the
 * system (58). Damaged data is such a cause, too. Source: PostgreSQL manual, appendix A.
 */
const UNAVAILABLE = /^(08|25006|28|3D|40|53|55|57|58)/;

/** Codes with which the driver and `node:` modules report mistakes in our code, not failures of the server. */
const OUR_MISTAKE = /^(UNDEFINED_VALUE|NOT_TAGGED_CALL|MAX_PARAMETERS_EXCEEDED|ERR_INVALID_)/;

/** Returns a {@linkcode DatabaseUnavailable} if the error means that; otherwise the error unchanged. */
export function toDatabaseError(error: unknown, { isInside }: { readonly isInside: boolean }): unknown {
  if (error instanceof postgres.PostgresError) {
    return UNAVAILABLE.test(error.code) || isDamageCode(error.code)
      ? new DatabaseUnavailable(error.code, { cause: error, isInside })
      : error;
  }
  const code = codeOf(error);
  return code === undefined || OUR_MISTAKE.test(code)
    ? error
    : new DatabaseUnavailable(code, { cause: error, isInside });
}
