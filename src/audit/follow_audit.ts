/**
 * Reads the audit log in the order in which transactions began, so that a reader can follow it and miss no row.
 *
 * The order of `id` is not enough: a transaction takes its ids first and commits later, so a row can appear whose id is
 * lower than ids that were already read. Therefore each row has the number of its transaction. A page has only rows of
 * transactions that are older than every running transaction (the `xmin` of the snapshot), so no row can appear among
 * them any more. Rows that an older program wrote have no number; they come first.
 *
 * A long transaction, such as an import, delays the rows that were written after it began: they appear when it has
 * ended. A long transaction in another database of the same server has the same effect.
 *
 * The numbers of transactions are unique only on one server: a restored database and a promoted standby use them again.
 * So a position contains the identity of the database, and a database without that identity, or without the row of the
 * position, refuses it. A crash of the server does no harm: the row is committed, and a server gives no later
 * transaction the same or a lower number.
 */

import { type Refusal, refuse } from "../base/refusal.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { isOnPage } from "./_first_rows.ts";
import type { AuditFilter } from "./audit_filter.ts";
import { type AuditRow, columns, toAuditRow } from "./list_audit.ts";

/**
 * A position: the identity of the database, the number of a transaction or nothing, and the id of a row or 0.
 * PostgreSQL reads the number of a transaction as octal if it begins with 0.
 */
export const AUDIT_POSITION = /^([0-9a-f]{32})\.(0|[1-9]\d{0,18}|)\.(\d{1,18})$/;

export interface AuditPart {
  readonly rows: readonly AuditRow[];
  /** The position from which to read on, at once or later. */
  readonly position: string;
}

interface FollowOptions {
  readonly filter?: AuditFilter;
  /** The most rows. */
  readonly limit: number;
  /** A position; by default the beginning of the log. */
  readonly after?: string | undefined;
}

const EXPIRED = refuse(
  "CURSOR_EXPIRED",
  "Cannot read on: the database was restored or replaced, or a standby took its place, so rows may be missing that " +
    "were read before; read the audit log again from its beginning, without `after`",
);

type Row = AuditRow & { readonly xid: string | null };

interface Answer extends Omit<Row, "id"> {
  readonly identity: string;
  readonly isKnown: boolean;
  /** The transaction and id of the newest row before which no other row can appear; null if there is none. */
  readonly newest: string | null;
  /** Null for the only row of an empty answer. */
  readonly id: number | null;
}

/**
 * Returns the rows after a position, at most `limit`. Fewer rows mean that there are no more rows for now. Refuses the
 * position of another database.
 */
export async function followAudit(
  database: Database,
  { filter = {}, limit, after }: FollowOptions,
): Promise<AuditPart | Refusal> {
  const [, identity, xid = "", id = "0"] = AUDIT_POSITION.exec(after ?? "") ?? [];
  const position = { xid: xid === "" ? null : xid, id };
  const answers = await database.read<Answer>(
    (sql) => sql`
      with page as (${selectPage(sql, { filter, limit, position })})
      select md5(concat_ws(' ', server_identity(), (select oid from pg_database where datname = current_database()),
                           'audit'::regclass::oid)) as identity,
             (${id}::bigint = 0 or exists (
               select from audit
                where id = ${id}::bigint and xid is not distinct from ${position.xid}::text::xid8)) as "isKnown",
             coalesce(
               (select concat(xid, '.', id) from audit where ${isSettled(sql)} order by xid desc nulls last, id desc limit 1),
               (select concat('.', id) from audit where xid is null order by id desc limit 1)) as newest,
             page.*
        from (select) once left join page on true
       order by page.xid::xid8 nulls first, page.id`,
  );
  const [first] = answers;
  if (first === undefined) throw new Error("The statement returns at least one row");
  if (after !== undefined && (identity !== first.identity || !first.isKnown)) return EXPIRED;
  const found = answers.filter((row): row is Answer & Row => row.id !== null);
  const last = found.length < limit ? undefined : found.at(-1);
  // A page that is not full ends at the end of the log. So the next page does not read the same excluded rows again.
  const end = last === undefined ? (first.newest ?? ".0") : `${last.xid ?? ""}.${last.id}`;
  return {
    rows: found.map(({ identity, isKnown, newest, xid, ...row }) => toAuditRow(row)),
    position: `${first.identity}.${end}`,
  };
}

/** No transaction that still runs can write a row before such a row. */
function isSettled(sql: Sql): Fragment {
  return sql`xid < pg_snapshot_xmin(pg_current_snapshot())`;
}

interface Page extends Pick<FollowOptions, "limit"> {
  readonly filter: AuditFilter;
  readonly position: { readonly xid: string | null; readonly id: string };
}

/**
 * Selects rows after a position. Old rows, without a transaction, are selected apart, so that each part uses the index.
 */
function selectPage(sql: Sql, { filter, limit, position: { xid, id } }: Page): Fragment {
  const of = (isNext: Fragment) => sql`
    select xid::text, ${columns(sql)} from audit where ${isOnPage(sql, { filter, limit, isNext })}
     order by audit.xid nulls first, id limit ${limit}::bigint`;
  if (xid !== null) {
    return of(sql`(xid, id) > (${xid}::text::xid8, ${id}::bigint) and ${isSettled(sql)}`);
  }
  return sql`
    select * from ((${of(sql`xid is null and id > ${id}::bigint`)}) union all (${of(isSettled(sql))})) either
     order by xid::xid8 nulls first, id limit ${limit}::bigint`;
}
