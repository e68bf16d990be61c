import { parseTimestamp, toTimestamp } from "../calendar.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { isOnPage, orderOf } from "./_first_rows.ts";
import type { AuditFilter } from "./audit_filter.ts";

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
      select ${columns(sql)} from audit
       where ${isOnPage(sql, { filter, limit, isNext: sql`true`, isNewestFirst: true })}
       order by ${orderOf(sql, { isNewestFirst: true })}
       limit ${limit}::bigint`,
  );
  return rows.map(toAuditRow);
}

/** The columns of a row; {@linkcode toAuditRow} makes the row. */
export function columns(sql: Sql): Fragment {
  return sql`id, at, actor, door, action, account_id as "userId", license_id as "licenseId", key_id as "keyId",
             before, after, reason, request, address`;
}

/** Turns the UUIDs of a row into identifiers, and the instants of its values into the form of all other instants. */
export function toAuditRow(row: AuditRow): AuditRow {
  return {
    ...row,
    userId: row.userId && toId("usr", row.userId),
    licenseId: row.licenseId && toId("lic", row.licenseId),
    keyId: row.keyId && toId("key", row.keyId),
    before: withTimestamps(row.before),
    after: withTimestamps(row.after),
  };
}

/** PostgreSQL writes an instant in JSON as `2027-01-31T00:00:00.5+00:00`, and a stored row is never changed. */
function withTimestamps(values: unknown): unknown {
  if (typeof values !== "object" || values === null || Array.isArray(values)) return values;
  const shown = Object.entries(values).map(([name, value]: [string, unknown]) => {
    const at = name.endsWith("_at") && typeof value === "string" ? parseTimestamp(value) : undefined;
    return [name, at === undefined ? value : toTimestamp(at)];
  });
  return Object.fromEntries(shown);
}
