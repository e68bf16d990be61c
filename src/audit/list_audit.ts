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

/** A row with its position among all rows. */
export interface ListedAuditRow extends AuditRow {
  readonly position: string;
}

interface AuditList extends AuditFilter {
  /** 100 rows by default. */
  readonly limit?: number;
  /** The position of the last row that was already read, of the form {@linkcode PAGE_POSITION}. */
  readonly after?: string | undefined;
}

/** A position: the transaction of a row, or nothing for a row of an older program, and its id. */
export const PAGE_POSITION = /^(\d{0,19})\.(\d{1,18})$/;

/** Lists the rows of the audit log, newest first. Rows that appear meanwhile are on the first page only. */
export async function listAudit(
  database: Database,
  { limit = 100, after, ...filter }: AuditList = {},
): Promise<ListedAuditRow[]> {
  const [, xid, id = "0"] = PAGE_POSITION.exec(after ?? "") ?? [];
  const find = async (isNext: (sql: Sql) => Fragment, most = limit) =>
    await database.query<AuditRow & { readonly transaction: string | null }>(
      (sql) => sql`
        select xid::text as transaction, ${columns(sql)} from audit
         where ${isOnPage(sql, { filter, limit: most, isNext: isNext(sql), isNewestFirst: true })}
         order by ${orderOf(sql, { isNewestFirst: true })}
         limit ${most}::bigint`,
      { isRead: true },
    );
  let rows: Awaited<ReturnType<typeof find>>;
  if (xid === undefined) rows = await find((sql) => sql`true`);
  else if (xid === "") rows = await find((sql) => sql`xid is null and id < ${id}::bigint`);
  else {
    rows = await find((sql) => sql`(xid, id) < (${xid}::text::xid8, ${id}::bigint)`);
    // The comparison leaves out rows of an older program, which come last. They are looked up apart, for the index.
    const missing = limit - rows.length;
    if (missing > 0) rows = [...rows, ...(await find((sql) => sql`xid is null`, missing))];
  }
  return rows.map(({ transaction, ...row }) => ({
    ...toAuditRow(row),
    position: `${transaction ?? ""}.${row.id}`,
  }));
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
