/** Finds in PostgreSQL's catalogue which tables and columns a backup contains, and in which order. */
import { monthOf } from "../../base/calendar.ts";
import type { Migration, Sql } from "../../database/mod.ts";
import type { BackedUpTable } from "./format.ts";

/**
 * Tables whose rows mean nothing in another database, or must not become valid again: an old login code, session or
 * answer to a repeated request, the failed logins of the last hours, the requests and refusals of the last minute, hour and day, the starts
 * and latencies of other processes, the backups of another database, and how far the events of erased accounts were read. Figures are computed again.
 * The migrations create `schema_migrations`.
 */
const NOT_CARRIED: readonly string[] = [
  "usage_changes",
  "schema_migrations",
  "login_codes",
  "operator_sessions",
  "idempotent_answers",
  "processes",
  "starts",
  "latency_steps",
  "figures",
  "figure_near_quota",
  "figure_most_used",
  "figure_latest_used",
  "figure_runs_out",
  "figure_unused",
  "figure_full",
  "figure_run",
  "last_backup",
  "taken_backups",
  "failed_login_hours",
  "shared_windows",
  "too_many_requests",
  "refused_hours",
  "erasure_sweep",
];

/**
 * Tables that have rows in a new database, because a migration wrote them. A restore replaces these rows, unless somebody has
 * set entitlements in one.
 */
const FILLED: readonly string[] = ["tiers"];

/** Returns the tables that the migrations create. Other tables in the database belong to the operator. */
export function tableNamesOf(migrations: readonly Migration[]): string[] {
  return migrations.flatMap(({ text }) =>
    [...text.matchAll(/^create (?:unlogged )?table (?:if not exists )?(\w+) \(/gm)].map(
      ([, name = ""]) => name,
    ),
  );
}

/** Lists the tables of a backup. A table comes after the tables that its foreign keys refer to. */
export async function listTables(sql: Sql, migrations: readonly Migration[]): Promise<BackedUpTable[]> {
  const names = tableNamesOf(migrations).filter((name) => !NOT_CARRIED.includes(name));
  const rows = await sql<CatalogueRow[]>`
    select c.relname as name,
           (select json_agg(a.attname order by a.attnum)
              from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
               and a.atttypid <> 'xid8'::regtype) as columns,
           (select json_agg(a.attname order by k.position)
              from pg_index i, unnest(i.indkey) with ordinality as k (attnum, position)
              join pg_attribute a on a.attnum = k.attnum
             where i.indrelid = c.oid and i.indisprimary and a.attrelid = c.oid) as "primaryKey",
           (select json_agg(a.attname order by k.position)
              from pg_partitioned_table p, unnest(p.partattrs) with ordinality as k (attnum, position)
              join pg_attribute a on a.attnum = k.attnum
             where p.partrelid = c.oid and p.partstrat = 'r' and a.attrelid = c.oid
               and a.atttypid = 'timestamptz'::regtype) as "partitionedBy",
           (select json_agg(distinct f.relname)
              from pg_constraint r join pg_class f on f.oid = r.confrelid
             where r.conrelid = c.oid and r.contype = 'f' and r.conparentid = 0) as parents
      from pg_class c
     where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
       and not c.relispartition
     order by c.relname collate "C"`;
  const tables: BackedUpTable[] = [];
  const left = new Map(rows.filter((row) => names.includes(row.name)).map((row) => [row.name, row]));
  while (left.size > 0) {
    const next = [...left.values()].find((row) =>
      (row.parents ?? []).every((parent) => parent === row.name || !left.has(parent)),
    );
    if (next === undefined) throw new Error(`Tables refer to each other in a circle: ${[...left.keys()]}`);
    left.delete(next.name);
    const { name, columns, primaryKey, partitionedBy } = next;
    // Without a primary key, order by every column: rows that are equal in some columns need an order, too.
    const order_by = primaryKey ?? [...new Set([...(partitionedBy ?? []), ...columns])];
    tables.push({ name, columns, order_by, ...(partitionedBy && { months: await listMonths(sql, next) }) });
  }
  return tables;
}

interface CatalogueRow {
  readonly name: string;
  readonly columns: string[];
  readonly primaryKey: string[] | null;
  /** The one column by whose months the table is partitioned, in an array. */
  readonly partitionedBy: string[] | null;
  readonly parents: string[] | null;
}

async function listMonths(sql: Sql, { name, partitionedBy }: CatalogueRow): Promise<string[]> {
  const rows = await sql<{ month: string }[]>`
    select to_char(month, 'YYYY-MM-DD') as month
      from (
        select distinct date_trunc('month', ${sql(partitionedBy?.[0] ?? "")} at time zone 'UTC') as month
          from ${sql(name)}
      ) as months
     order by months.month`;
  return rows.map(({ month }) => month);
}

/** Counts the rows of a table. */
export async function countTableRows(sql: Sql, table: BackedUpTable): Promise<number> {
  const [row] = await sql<{ rows: number }[]>`select count(*) as rows from ${sql(table.name)}`;
  return row?.rows ?? 0;
}

/** Returns the statement that loads a table. */
export function renderCopyIn({ name, columns }: BackedUpTable): string {
  return `copy ${quoted(name)} (${columns.map(quoted).join(", ")}) from stdin`;
}

/**
 * Returns the statements that write a table's rows in order. A partitioned table has one statement for each month,
 * so that the server sorts only one month at a time.
 */
export async function renderCopiesOut(sql: Sql, table: BackedUpTable): Promise<string[]> {
  const { name, columns, order_by, months } = table;
  const texts = await sql<{ name: string }[]>`
    select attname as name from pg_attribute
     where attrelid = to_regclass(quote_ident(${name})) and attnum > 0 and attcollation <> 0`;
  const isText = (column: string) => texts.some((text) => text.name === column);
  // The order must be the same on every server, whatever its language.
  const order = order_by.map((column) => (isText(column) ? `${quoted(column)} collate "C"` : quoted(column)));
  const [by = ""] = order;
  const windows = months?.map(
    (month) => `where ${by} >= '${month} 00:00Z' and ${by} < '${monthOf(Date.parse(month)).resetsAt}'`,
  ) ?? [""];
  return windows.map(
    (window) =>
      `copy (select ${columns.map(quoted).join(", ")} from ${quoted(name)} ${window} ` +
      `order by ${order.join(", ")}) to stdout`,
  );
}

/** Quotes an identifier for SQL. */
export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

/**
 * Sets this transaction to write the same rows as the same text on every server, and to allow a long duration.
 * `lockWaitMs` is how long a statement waits for a lock. Takes no snapshot.
 */
export async function setCopySettings(sql: Sql, lockWaitMs = 30_000): Promise<void> {
  await sql.unsafe(`
    set local datestyle = 'ISO, MDY'; set local intervalstyle = 'postgres'; set local timezone = 'UTC';
    set local extra_float_digits = 1; set local bytea_output = 'hex'; set local client_encoding = 'UTF8';
    set local idle_in_transaction_session_timeout = 0; set local lock_timeout = '${lockWaitMs}ms';
    set local work_mem = '64MB'`);
}

/** Returns the obstacle to a restore as a phrase: a row, or a relation that is not ours; undefined if there is none. */
export async function findContents(sql: Sql): Promise<string | undefined> {
  const relations = await sql<{ name: string; isTable: boolean }[]>`
    select c.relname as name, c.relkind in ('r', 'p') as "isTable"
      from pg_class c
     where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
       and not c.relispartition
       and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')
     -- The audit log last: every change writes it, so the table that was changed says more.
     order by c.relname = 'audit', c.relname collate "C"`;
  const names = relations.map(({ name }) => name);
  const [first] = relations;
  if (first === undefined) return undefined;
  if (!names.includes("schema_migrations")) return `it has ${first.name}, which is not Claviger's`;
  for (const { name, isTable } of relations) {
    if (!isTable || name === "schema_migrations") continue;
    if (FILLED.includes(name)) {
      const [row] = await sql<{ tier: string }[]>`
        select tier from ${sql(name)} where entitlements <> '{}' order by tier limit 1`;
      if (row !== undefined) return `the tier ${row.tier} has values`;
      continue;
    }
    const [row] = await sql`select from ${sql(name)} limit 1`;
    if (row !== undefined) return `${name} has rows`;
  }
  return undefined;
}

/** Deletes the rows that the migrations wrote into these tables. */
export async function deleteFilled(sql: Sql, tables: readonly BackedUpTable[]): Promise<void> {
  for (const { name } of tables) if (FILLED.includes(name)) await sql`delete from ${sql(name)}`;
}
