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
import { type AuditFilter, meets } from "./audit_filter.ts";
import { type AuditRow, columns, toAuditRow } from "./list_audit.ts";

/**
 * A position: the identity of the database, the number of a transaction or nothing, and the id of a row or 0.
 * PostgreSQL reads the number of a transaction as octal if it begins with 0.
 */
export const AUDIT_POSITION = /^([0-9a-f]{32})\.(0|[1-9]\d{0,18}|)\.(\d{1,18})$/;

export interface FollowedAuditRow extends AuditRow {
  /** The position after this row. */
  readonly cursor: string;
}

export interface AuditPart {
  readonly rows: readonly FollowedAuditRow[];
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
    "were read before",
  { remedy: { name: "read_from_start" } },
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
  const { identity, ...position } = parsePosition(after);
  const { xid, id } = position;
  const answers = await database.read<Answer>(
    (sql) => sql`
      with page as (${selectPage(sql, { filter, limit, position })})
      select ${selectIdentity(sql)} as identity,
             (${id}::bigint = 0 or exists (
               select from audit
                where id = ${id}::bigint and xid is not distinct from ${xid}::text::xid8)) as "isKnown",
             ${selectNewest(sql)} as newest, page.*
        from (select) once left join page on true
       order by page.xid::xid8 nulls first, page.id`,
  );
  const [first] = answers;
  if (first === undefined) throw new Error("The statement returns at least one row");
  if (after !== undefined && (identity !== first.identity || !first.isKnown)) return EXPIRED;
  const found = answers.filter((row): row is Answer & Row => row.id !== null);
  const last = found.length < limit ? undefined : found.at(-1);
  // A page that is not full ends at the end of the log. So the next page does not read the same excluded rows again.
  const end = last === undefined ? (first.newest ?? START) : `${last.xid ?? ""}.${last.id}`;
  return {
    rows: found.map(({ identity, isKnown, newest, xid, ...row }) => ({
      ...toAuditRow(row),
      cursor: `${identity}.${xid ?? ""}.${row.id}`,
    })),
    position: `${first.identity}.${end}`,
  };
}

/** Returns the position of the end of the log, from which a reader reads what is written from now on. */
export async function findAuditEnd(database: Database): Promise<string> {
  const [end] = await database.read<{ identity: string; newest: string | null }>(
    (sql) => sql`select ${selectIdentity(sql)} as identity, ${selectNewest(sql)} as newest`,
  );
  if (end === undefined) throw new Error("The statement returns one row");
  return `${end.identity}.${end.newest ?? START}`;
}

/** A reader that waits for rows after a position that meet a filter. */
export interface AuditWait {
  readonly filter: AuditFilter;
  readonly after: string;
}

interface AuditNews {
  /** For each reader, whether there is such a row. It is also true if only a page can tell. */
  readonly areThere: readonly boolean[];
  /** The end of the log: the rows up to it are examined. */
  readonly position: string;
}

/** The most rows that are examined for readers that wait. If there are more, each reader reads its own page. */
const MOST_NEWS = 1_000;

/** Tells for many readers at once, by one statement, whether there are rows for them. */
export async function findAuditNews(database: Database, waits: readonly AuditWait[]): Promise<AuditNews> {
  const parsed = waits.map(({ filter, after }) => ({ filter, position: parsePosition(after) }));
  const [first] = parsed.map(({ position }) => position).sort(comparePositions);
  if (first === undefined) throw new Error("Nobody waits");
  const groups = Map.groupBy(parsed, (wait) => JSON.stringify(wait));
  const [answer] = await database.read<{
    identity: string;
    newest: string | null;
    isFull: boolean;
    areThere: boolean[];
  }>((sql) => {
    const questions = [...groups.values()].map(([wait]) =>
      wait === undefined
        ? sql`false`
        : sql`exists (select from news where ${isAfter(sql, wait.position)} and ${meets(sql, wait.filter)})`,
    );
    return sql`
      with news as materialized (
        select * from audit
         where id = any(array(select id from (${selectPage(sql, { filter: {}, limit: MOST_NEWS, position: first })}) as page)))
      select ${selectIdentity(sql)} as identity, ${selectNewest(sql)} as newest,
             (select count(*) from news) = ${MOST_NEWS}::bigint as "isFull",
             to_json(array[${questions.reduce((all, question) => sql`${all}, ${question}`)}]) as "areThere"`;
  });
  if (answer === undefined) throw new Error("The statement returns one row");
  const { identity, newest, isFull, areThere } = answer;
  const keys = [...groups.keys()];
  return {
    areThere: parsed.map(
      (wait) =>
        isFull ||
        wait.position.identity !== identity ||
        areThere[keys.indexOf(JSON.stringify(wait))] === true,
    ),
    position: `${identity}.${newest ?? START}`,
  };
}

/** The position of a log without rows, after the identity. */
const START = ".0";

interface Position {
  /** Null before every row of a transaction. */
  readonly xid: string | null;
  readonly id: string;
}

function parsePosition(text: string | undefined): Position & { readonly identity: string | undefined } {
  const [, identity, xid = "", id = "0"] = AUDIT_POSITION.exec(text ?? "") ?? [];
  return { identity, xid: xid === "" ? null : xid, id };
}

function comparePositions(one: Position, other: Position): number {
  const xids = BigInt(one.xid ?? -1) - BigInt(other.xid ?? -1);
  return Number(xids === 0n ? BigInt(one.id) - BigInt(other.id) : xids);
}

/** Returns the condition that a row comes after a position. */
function isAfter(sql: Sql, { xid, id }: Position): Fragment {
  return xid === null
    ? sql`(xid is not null or id > ${id}::bigint)`
    : sql`(xid, id) > (${xid}::text::xid8, ${id}::bigint)`;
}

function selectIdentity(sql: Sql): Fragment {
  return sql`
    md5(concat_ws(' ', server_identity(), (select oid from pg_database where datname = current_database()),
                  'audit'::regclass::oid))`;
}

function selectNewest(sql: Sql): Fragment {
  return sql`
    coalesce(
      (select concat(xid, '.', id) from audit where ${isSettled(sql)} order by xid desc nulls last, id desc limit 1),
      (select concat('.', id) from audit where xid is null order by id desc limit 1))`;
}

/** No transaction that still runs can write a row before such a row. */
function isSettled(sql: Sql): Fragment {
  return sql`xid < pg_snapshot_xmin(pg_current_snapshot())`;
}

interface Page extends Pick<FollowOptions, "limit"> {
  readonly filter: AuditFilter;
  readonly position: Position;
}

/**
 * Selects rows after a position. Old rows, without a transaction, are selected apart, so that each part uses the index.
 */
function selectPage(sql: Sql, { filter, limit, position: { xid, id } }: Page): Fragment {
  const of = (isNext: Fragment) => sql`
    select xid::text, ${columns(sql)} from audit where ${isOnPage(sql, { filter, limit, isNext })}
     order by audit.xid nulls first, id limit ${limit}::bigint`;
  if (xid !== null) {
    return of(sql`${isAfter(sql, { xid, id })} and ${isSettled(sql)}`);
  }
  return sql`
    select * from ((${of(sql`xid is null and id > ${id}::bigint`)}) union all (${of(isSettled(sql))})) either
     order by xid::xid8 nulls first, id limit ${limit}::bigint`;
}
