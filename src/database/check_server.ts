/**
 * Tries what Claviger needs of a PostgreSQL that others run, before it changes anything there. A server that cannot do
 * it would not fail at once, but let revoked keys pass or lose counts later.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Refusal, refuse } from "../base/refusal.ts";
import { openSession } from "./database_session.ts";
import { type DatabaseAddress, isInsideAddress } from "./database_url.ts";
import type { Sql } from "./sql.ts";

/** The oldest PostgreSQL version that can run all statements. */
const OLDEST_SERVER = 15;
const STATEMENT_MS = 10_000;
const SHARED_CONNECTION_MS = 3_000;

const NO_GROWTH =
  "its transaction numbers do not grow, so a process could not see what others changed; use PostgreSQL itself " +
  "(YugabyteDB and CockroachDB only speak its protocol)";

/** Refuses a PostgreSQL that is too old, and servers whose name says that they only speak its protocol. */
export async function checkVersion(sql: Sql): Promise<Refusal | undefined> {
  const [server] = await sql<{ name: string; version: number }[]>`
    select version() as name, current_setting('server_version_num')::integer / 10000 as version`;
  if (/CockroachDB|-YB-/.test(server?.name ?? "")) return cannot(NO_GROWTH);
  if (server !== undefined && server.version >= OLDEST_SERVER) return undefined;
  return cannot(`version ${server?.version} is older than ${OLDEST_SERVER}; upgrade the server`);
}

/**
 * Refuses a server without transaction numbers that grow, without one snapshot of all tables, or behind a pooler that
 * gives each transaction another session. Needs a second connection, except for the PostgreSQL inside, which it trusts.
 */
export async function tryServer(address: DatabaseAddress, sql: Sql): Promise<Refusal | undefined> {
  if (isInsideAddress(address)) return undefined;
  if (await losesSession(address, sql)) {
    return cannot(
      "a pooler in transaction mode answers, which gives each transaction another session; name the server itself " +
        "in DATABASE_URL, or a pooler in session mode",
    );
  }
  if (!(await growsTransactions(sql))) return cannot(NO_GROWTH);
  if (await isDistributed(sql)) {
    return cannot(
      "Citus distributes tables of this database over nodes, and no snapshot covers all of them; use a database " +
        "without distributed tables",
    );
  }
  return undefined;
}

/**
 * Tells whether a value that a session sets is gone after another session began a transaction: a pooler in
 * transaction mode gives the first connection to the second one.
 */
async function losesSession(address: DatabaseAddress, sql: Sql): Promise<boolean> {
  const mark = randomUUID();
  await sql`select set_config('claviger.session', ${mark}, false)`;
  await using other = openSession(address, { statementTimeoutMs: STATEMENT_MS });
  const [found] = await other.transaction(async (otherSql) => {
    await otherSql`select`;
    const answer = sql<{ mark: string | null }[]>`select current_setting('claviger.session', true) as mark`;
    answer.catch(() => {});
    // A pooler with only one connection to the server lets this statement wait for the end of the transaction.
    return await Promise.race([answer, sleep(SHARED_CONNECTION_MS, [])]);
  });
  return found?.mark !== mark;
}

async function growsTransactions(sql: Sql): Promise<boolean> {
  const next = () => sql<{ id: string }[]>`select pg_current_xact_id()::text as id`;
  const [[first], [second]] = [await next(), await next()];
  return BigInt(first?.id ?? 0) < BigInt(second?.id ?? 0);
}

async function isDistributed(sql: Sql): Promise<boolean> {
  const catalogue = await sql`select from pg_class where oid = to_regclass('pg_dist_partition')`;
  return catalogue.length > 0 && (await sql`select from pg_dist_partition limit 1`).length > 0;
}

function cannot(why: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot use this PostgreSQL: ${why}`);
}
