/** The PostgreSQL 15 of Debian, the oldest that Claviger takes. */

/** The folder of its programs. */
export const POSTGRES_15_BIN = "/usr/lib/postgresql/15/bin";

/** Returns the command that runs a program as another user than root, because PostgreSQL refuses root; else nothing. */
export function asOrdinaryUser(): string[] {
  return process.getuid?.() === 0 ? ["setpriv", "--reuid=nobody", "--clear-groups"] : [];
}
