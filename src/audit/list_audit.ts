import { parseTimestamp, toTimestamp } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import { wholeNumber } from "../base/rule.ts";
import { countRows, type Database, type Fragment, MOST_COUNTED, type Sql } from "../database/mod.ts";
import { isOnPage, orderOf, selectParts } from "./_first_rows.ts";
import type { AuditFilter } from "./audit_filter.ts";

type Values = Readonly<Record<string, unknown>>;

export interface AuditRow {
  readonly id: number;
  readonly at: Date;
  readonly actor: string;
  /** How the actor came in: `client`, `command`, `api`, `console` or `service`; null for rows of an older program. */
  readonly door: string | null;
  readonly action: string;
  readonly userId: string | null;
  readonly licenseId: string | null;
  readonly keyId: string | null;
  readonly before: Values | null;
  readonly after: Values | null;
  readonly reason: string | null;
  /** The identifier of the request, `req_…`; null for a command. */
  readonly request: string | null;
  /** The address that the request came from; null for a command. */
  readonly address: string | null;
  /** The identifier `aud_…`, which no other row ever has; null for rows of an older program. */
  readonly uniqueId: string | null;
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
  readonly oldestFirst?: boolean | undefined;
}

/** A position: the transaction of a row, or nothing for a row of an older program, and its id. */
export const PAGE_POSITION = /^(\d{0,19})\.(\d{1,18})$/;

/** Lists the rows of the audit log, by default newest first: rows that appear meanwhile are on the first page only. */
export async function listAudit(
  database: Database,
  { limit = 100, after, oldestFirst, ...filter }: AuditList = {},
): Promise<ListedAuditRow[]> {
  const isNewestFirst = !oldestFirst;
  const rows: (AuditRow & { readonly transaction: string | null })[] = [];
  for (const isNext of partsAfter(after, isNewestFirst)) {
    const left = limit - rows.length;
    if (left === 0) break;
    const found = await database.read<(typeof rows)[number]>(
      (sql) => sql`
        select xid::text as transaction, ${columns(sql)} from audit
         where ${isOnPage(sql, { filter, limit: left, isNext: isNext(sql), isNewestFirst })}
         order by ${orderOf(sql, { isNewestFirst })}
         limit ${left}::bigint`,
    );
    rows.push(...found);
  }
  return rows.map(({ transaction, ...row }) => ({
    ...toAuditRow(row),
    position: `${transaction ?? ""}.${row.id}`,
  }));
}

/** The rule for the id of a row. */
export const AUDIT_ID = wholeNumber(1);

/** Finds the position of the row with this id; undefined if there is none. */
export async function findAuditPosition(database: Database, id: number): Promise<string | undefined> {
  const [row] = await database.read<{ position: string }>(
    (sql) => sql`select concat(xid, '.', id) as position from audit where id = ${id}::bigint`,
  );
  return row?.position;
}

/** Counts the rows that meet the filter up to a number, and those that are newer than a position. */
export async function countAudit(
  database: Database,
  { after, ...filter }: Pick<AuditList, "after"> & AuditFilter,
): Promise<number> {
  let count = 0;
  for (const isNext of partsAfter(after, false))
    count += await countRows(database, (sql) => {
      // The order is that of the indexes, so that no part is read to its end.
      const last = sql`order by ${orderOf(sql, { isNewestFirst: false })} limit ${MOST_COUNTED + 1}::bigint`;
      return selectParts(sql, { filter, isNext: isNext(sql) }, last);
    });
  return count;
}

/**
 * Counts the keys that a transaction imported, up to {@linkcode MOST_COUNTED}. Undefined if it made other changes, too:
 * only that of a demo did, and it has fewer rows.
 */
export async function countImport(database: Database, xid: string): Promise<number | undefined> {
  const [row] = await database.read<{ rows: number; imported: number }>(
    (sql) => sql`
      select count(*) as rows, count(*) filter (where action = 'key.import') as imported
        from (select action from audit where xid = ${xid}::text::xid8 limit ${MOST_COUNTED + 1}::bigint) as row`,
  );
  return row?.rows === row?.imported ? row?.imported : undefined;
}

/**
 * Returns the conditions of the rows after a position: a comparison leaves out the rows of an older program, which have
 * no transaction. They are the oldest, and are looked up apart, for the index.
 */
function partsAfter(position: string | undefined, isNewestFirst: boolean): ((sql: Sql) => Fragment)[] {
  const [, xid, id = "0"] = PAGE_POSITION.exec(position ?? "") ?? [];
  const after = (sql: Sql) => (isNewestFirst ? sql`<` : sql`>`);
  if (xid === undefined) return [(sql) => sql`true`];
  if (xid === "") {
    const isOld = (sql: Sql) => sql`xid is null and id ${after(sql)} ${id}::bigint`;
    return isNewestFirst ? [isOld] : [isOld, (sql) => sql`xid is not null`];
  }
  const isNext = (sql: Sql) => sql`(xid, id) ${after(sql)} (${xid}::text::xid8, ${id}::bigint)`;
  return isNewestFirst ? [isNext, (sql) => sql`xid is null`] : [isNext];
}

/** The columns of a row of `audit`; {@linkcode toAuditRow} makes the row. */
export function columns(sql: Sql): Fragment {
  return sql`id, at, actor, door, action, account_id as "userId", license_id as "licenseId", key_id as "keyId",
             ${withEmail(sql, { values: sql`before`, email: sql`old_email` })} as before,
             ${withEmail(sql, { values: sql`after`, email: sql`new_email` })} as after, reason, request, address,
             unique_id as "uniqueId"`;
}

/** Returns the values of a row, with the e-mail of the account if the row changed it and the person is not erased. */
function withEmail(
  sql: Sql,
  { values, email }: { readonly values: Fragment; readonly email: Fragment },
): Fragment {
  return sql`
    case when action = 'account.update'
         then coalesce((select coalesce(${values}, '{}') || jsonb_build_object('email', ${email})
                          from former_emails where audit_id = audit.id), ${values})
         else ${values} end`;
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
    uniqueId: row.uniqueId && toId("aud", row.uniqueId),
  };
}

/** PostgreSQL writes an instant in JSON as `2027-01-31T00:00:00.5+00:00`, and a stored row is never changed. */
function withTimestamps(values: Values | null): Values | null {
  // A row that a person wrote by hand can have any value.
  if (typeof values !== "object" || values === null || Array.isArray(values)) return values;
  const shown = Object.entries(values).map(([name, value]: [string, unknown]) => {
    const at =
      /_(at|until|start)$/.test(name) && typeof value === "string" ? parseTimestamp(value) : undefined;
    return [name, at === undefined ? value : toTimestamp(at)];
  });
  return Object.fromEntries(shown);
}
