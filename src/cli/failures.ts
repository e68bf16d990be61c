/** Renders exceptions as one line for the operator: what failed, where, why, and what to check. */

import { type Refusal, refuse } from "../base/refusal.ts";
import { codeOf, FILE_REASONS, type Reasons, reasonOf } from "../base/system_error.ts";
import { refuseDamaged } from "../database/embedded/mod.ts";
import { explainFailure, nameOfDatabase } from "../database/mod.ts";
import type { Config } from "../installation/config/mod.ts";

/**
 * Refuses for an error of the database or of its connection, never with a password. Returns undefined for any other
 * error.
 */
export function refuseDatabaseFailure(error: unknown, { databaseUrl, dataDir }: Config): Refusal | undefined {
  const isInside = databaseUrl === undefined;
  const failure = explainFailure(error, { isInside });
  if (failure === undefined) return undefined;
  const { why, remedy, isRefused, needsPerson, damage } = failure;
  if (isInside && damage !== undefined) return refuseDamaged(dataDir, damage);
  const where = isInside ? `in ${dataDir}` : `at ${nameOfDatabase(databaseUrl)}`;
  const what = isRefused ? `The database ${where} refused` : `Cannot reach the database ${where}`;
  return refuse(
    needsPerson ? "INVALID_REQUEST" : "SERVICE_UNAVAILABLE",
    `${what}: ${why}${remedy === undefined ? "" : `; ${remedy}`}`,
  );
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
