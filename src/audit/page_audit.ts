import type { Database, Fragment, Sql } from "../database/mod.ts";
import { isOnPage, orderOf } from "./_first_rows.ts";
import type { AuditFilter } from "./audit_filter.ts";
import { type AuditRow, columns, toAuditRow } from "./list_audit.ts";

export interface AuditPage {
  /** Newest first. */
  readonly rows: readonly AuditRow[];
  /** Where the next page begins, as text; undefined on the last page. */
  readonly next: string | undefined;
}

interface PageOptions {
  readonly filter: AuditFilter;
  /** The rows of a page, at most 999. */
  readonly limit: number;
  /** `next` of the page before, which has the form {@linkcode PAGE_POSITION}. */
  readonly after?: string | undefined;
}

/** The transaction of a row, or nothing for a row of an older program, and its id. */
export const PAGE_POSITION = /^(\d{0,19})\.(\d{1,18})$/;

/** Returns a page of the audit log, newest first. Rows that appear meanwhile are on the first page only. */
export async function pageAudit(
  database: Database,
  { filter, limit, after }: PageOptions,
): Promise<AuditPage> {
  const [, xid, id = "0"] = PAGE_POSITION.exec(after ?? "") ?? [];
  const wanted = limit + 1;
  const find = (isNext: (sql: Sql) => Fragment, most: number) =>
    findRows(database, { filter, limit: most, isNext });
  let rows: readonly Row[];
  if (xid === undefined) rows = await find((sql) => sql`true`, wanted);
  else if (xid === "") rows = await find((sql) => sql`xid is null and id < ${id}::bigint`, wanted);
  else {
    rows = await find((sql) => sql`(xid, id) < (${xid}::text::xid8, ${id}::bigint)`, wanted);
    // The comparison leaves out rows of an older program, which come last. They are looked up apart, for the index.
    const missing = wanted - rows.length;
    if (missing > 0) rows = [...rows, ...(await find((sql) => sql`xid is null`, missing))];
  }
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  return {
    rows: shown.map(({ transaction, ...row }) => toAuditRow(row)),
    next: last && `${last.transaction ?? ""}.${last.id}`,
  };
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
