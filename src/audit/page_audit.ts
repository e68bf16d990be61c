import type { Database, Fragment, Sql } from "../database/mod.ts";
import { isOnPage, orderOf } from "./_first_rows.ts";
import type { AuditFilter } from "./audit_filter.ts";
import { type AuditRow, columns, toAuditRow } from "./list_audit.ts";

interface PageOptions {
  readonly filter: AuditFilter;
  /** The rows of a page, at most 1,000. */
  readonly limit: number;
  /** The position of the last row before the page, of the form {@linkcode PAGE_POSITION}. */
  readonly after?: string | undefined;
}

/** The transaction of a row, or nothing for a row of an older program, and its id. */
export const PAGE_POSITION = /^(\d{0,19})\.(\d{1,18})$/;

/** Returns a page of the audit log, newest first. Rows that appear meanwhile are on the first page only. */
export async function pageAudit(
  database: Database,
  { filter, limit, after }: PageOptions,
): Promise<PagedRow[]> {
  const [, xid, id = "0"] = PAGE_POSITION.exec(after ?? "") ?? [];
  const find = (isNext: (sql: Sql) => Fragment, most = limit) =>
    findRows(database, { filter, limit: most, isNext });
  let rows: readonly Row[];
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

/** A row with its position in the order of the pages. */
export interface PagedRow extends AuditRow {
  readonly position: string;
}

type Row = AuditRow & { readonly transaction: string | null };

async function findRows(
  database: Database,
  {
    filter,
    limit,
    isNext,
  }: { readonly filter: AuditFilter; readonly limit: number; isNext(sql: Sql): Fragment },
): Promise<readonly Row[]> {
  return await database.query<Row>(
    (sql) => sql`
      select xid::text as transaction, ${columns(sql)} from audit
       where ${isOnPage(sql, { filter, limit, isNext: isNext(sql), isNewestFirst: true })}
       order by ${orderOf(sql, { isNewestFirst: true })}
       limit ${limit}::bigint`,
    { isRead: true },
  );
}
