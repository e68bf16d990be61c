import type { Database, Fragment, Sql } from "../database/mod.ts";
import { toId } from "../ids.ts";

/** The conditions of a row: it meets all given conditions. */
export interface AuditFilter {
  readonly keyUuid?: string | undefined;
  readonly accountUuid?: string | undefined;
  /** As the log names it, such as `token:shop`. */
  readonly actor?: string | undefined;
  /** Noun and verb, such as `key.revoke`. */
  readonly action?: string | undefined;
  /** Only rows at or after this instant. */
  readonly since?: Date | undefined;
  /** Only rows before this instant. */
  readonly until?: Date | undefined;
}

export interface AuditRow {
  readonly id: number;
  readonly at: Date;
  readonly actor: string;
  /** How the actor came in: `client`, `command`, `api` or `console`; null for rows of an older program. */
  readonly door: string | null;
  readonly action: string;
  readonly userId: string | null;
  readonly licenseId: string | null;
  readonly keyId: string | null;
  readonly before: unknown;
  readonly after: unknown;
  readonly reason: string | null;
  /** The identifier of the request, `req_…`; null for a command. */
  readonly request: string | null;
  /** The address that the request came from; null for a command. */
  readonly address: string | null;
}

/** Lists the rows of the audit log, newest first; 100 rows by default. */
export async function listAudit(
  database: Database,
  { limit = 100, ...filter }: AuditFilter & { readonly limit?: number } = {},
): Promise<AuditRow[]> {
  const rows = await database.query<AuditRow>(
    (sql) => sql`
      select ${columns(sql)} from audit where ${meets(sql, filter)}
       order by id desc
       limit ${limit}::bigint`,
  );
  return rows.map(toAuditRow);
}

/** Returns the condition that a row meets the filter. */
export function meets(
  sql: Sql,
  { keyUuid, accountUuid, actor, action, since, until }: AuditFilter,
): Fragment {
  return sql`
    true ${keyUuid === undefined ? sql`` : sql`and key_id = ${keyUuid}::uuid`}
         ${accountUuid === undefined ? sql`` : sql`and account_id = ${accountUuid}::uuid`}
         ${actor === undefined ? sql`` : sql`and actor = ${actor}::text`}
         ${action === undefined ? sql`` : sql`and action = ${action}::text`}
         ${since === undefined ? sql`` : sql`and at >= ${since}::timestamptz`}
         ${until === undefined ? sql`` : sql`and at < ${until}::timestamptz`}`;
}

/** The columns of a row; {@linkcode toAuditRow} makes the row. */
export function columns(sql: Sql): Fragment {
  return sql`id, at, actor, door, action, account_id as "userId", license_id as "licenseId", key_id as "keyId",
             before, after, reason, request, address`;
}

/** Turns the UUIDs of a row into identifiers. */
export function toAuditRow(row: AuditRow): AuditRow {
  return {
    ...row,
    userId: row.userId && toId("usr", row.userId),
    licenseId: row.licenseId && toId("lic", row.licenseId),
    keyId: row.keyId && toId("key", row.keyId),
  };
}
