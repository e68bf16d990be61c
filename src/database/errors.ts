/**
 * Which failures mean that the database cannot answer now, and which that a value was refused.
 *
 * The first kind becomes {@linkcode DatabaseUnavailable}, whatever the driver called it; everything else
 * passes through as the driver threw it.
 */
import postgres from "postgres";
import { codeOf } from "../system_error.ts";

/**
 * The database did not answer in time or could not be reached. Whether the statement took effect is not
 * known.
 */
export class DatabaseUnavailable extends Error {
  override readonly name = "DatabaseUnavailable";
  /** A SQLSTATE or the driver's or system's own code, such as `57P01` or `ECONNREFUSED`. */
  readonly code: string;

  constructor(code: string, options?: ErrorOptions) {
    super(`The database does not answer: ${code}`, options);
    this.code = code;
  }
}

/** True when the connection was lost while a statement ran, or the server ended it. */
export function isLost({ code }: DatabaseUnavailable): boolean {
  return LOST.has(code);
}

const LOST: ReadonlySet<string> = new Set(["CONNECTION_CLOSED", "ECONNRESET", "EPIPE", "57P01", "57P02"]);

/** What the server said where it refused to write: its disk is full or fails, or it is read-only. */
export function refusedWrite(
  error: unknown,
): { readonly message: string; readonly code: string } | undefined {
  const cause = error instanceof DatabaseUnavailable ? error.cause : error;
  return cause instanceof postgres.PostgresError && /^(53100|58030|25006)$/.test(cause.code)
    ? cause
    : undefined;
}

/** True for an error of the data: a value out of range or a broken constraint (SQLSTATE 22 and 23). */
export function isDataError(error: unknown): boolean {
  return error instanceof postgres.PostgresError && /^2[23]/.test(error.code);
}

/** True where a unique constraint refused a row; see {@linkcode constraintOf} for which. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === "23505";
}

/** The name of the constraint that refused a row; undefined for every other error. */
export function constraintOf(error: unknown): string | undefined {
  return error instanceof postgres.PostgresError ? error.constraint_name : undefined;
}

/** True where somebody held a lock on a table for longer than `lock_timeout` lets a statement wait. */
export function isLockTimeout(error: unknown): boolean {
  const cause = error instanceof DatabaseUnavailable ? error.cause : error;
  return cause instanceof postgres.PostgresError && cause.code === "55P03";
}

/**
 * Classes of SQLSTATE that tell of the server's state and not of the statement: connection (08), a
 * read-only standby (25006), a login that is refused or a database that is gone (28, 3D), deadlock and
 * serialization (40), resources, full disk included (53), locks (55), an operator's intervention,
 * `statement_timeout` included (57), and the system (58). Source: PostgreSQL manual, appendix A.
 */
const UNAVAILABLE = /^(08|25006|28|3D|40|53|55|57|58)/;

/** Codes with which the driver and `node:` modules report our own mistakes: those are not the server's. */
const OUR_MISTAKE = /^(UNDEFINED_VALUE|NOT_TAGGED_CALL|MAX_PARAMETERS_EXCEEDED|ERR_INVALID_)/;

/** Turns what the driver threw into {@linkcode DatabaseUnavailable} where it is that. */
export function toDatabaseError(error: unknown): unknown {
  if (error instanceof postgres.PostgresError) {
    return UNAVAILABLE.test(error.code) ? new DatabaseUnavailable(error.code, { cause: error }) : error;
  }
  const code = codeOf(error);
  return code === undefined || OUR_MISTAKE.test(code)
    ? error
    : new DatabaseUnavailable(code, { cause: error });
}
