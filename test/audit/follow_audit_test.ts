/** Following the audit log: every row once, in the order of transactions, however late a transaction commits. */
import { describe, expect, test } from "bun:test";
import { type AuditFilter, type AuditPart, followAudit } from "../../src/audit/mod.ts";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { type DatabaseSession, openSession } from "../../src/database/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { issue, NOW } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useForAll, useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();
const opened = useForAll(async () => {
  const sessions: DatabaseSession[] = [];
  const close = async () => {
    for (const session of sessions) await session.close();
  };
  return { sessions, close };
});

async function follow(
  after?: string,
  { limit = 100, ...filter }: AuditFilter & { limit?: number } = {},
): Promise<AuditPart> {
  const part = await followAudit(server.database, { after, limit, filter });
  if (isRefusal(part)) throw new Error(part.sentence);
  return part;
}

/** Follows from a position until a row with this action is seen. Other tests' transactions may delay it. */
async function followUntil(action: string, after: string): Promise<AuditPart> {
  const rows: AuditPart["rows"][number][] = [];
  let position = after;
  await until(async () => {
    const part = await follow(position);
    rows.push(...part.rows);
    position = part.position;
    return rows.some((row) => row.action === action);
  });
  return { rows, position };
}

/** Follows to the end of the log as it is now. */
async function end(): Promise<string> {
  const { position } = await follow();
  await write("test.mark");
  return (await followUntil("test.mark", position)).position;
}

async function open(): Promise<DatabaseSession> {
  const session = openSession(server.address, { statementTimeoutMs: 10_000 });
  await session.connect();
  opened.sessions.push(session);
  return session;
}

async function write(action: string, session?: DatabaseSession): Promise<void> {
  if (session)
    await session.sql`insert into audit (at, actor, action) values (${NOW}, 'command:t', ${action})`;
  else
    await server.database.query(
      (sql) =>
        sql`insert into audit (at, actor, action) values (${NOW}::timestamptz, 'command:t', ${action})`,
    );
}

const actionsOf = ({ rows }: AuditPart) => rows.map(({ action }) => action);

describe("followAudit()", () => {
  test("misses no row of two transactions that commit in the other order", async () => {
    const start = await end();
    const [slow, fast] = [await open(), await open()];
    await slow.sql`begin`;
    await write("test.slow", slow);
    await fast.sql`begin`;
    await write("test.fast", fast);
    await fast.sql`commit`;
    const between = await follow(start);
    expect(actionsOf(between)).toEqual([]);
    await slow.sql`commit`;
    const { rows } = await followUntil("test.fast", between.position);
    expect(rows.map(({ action }) => action)).toEqual(["test.slow", "test.fast"]);
  });

  test("waits for a transaction that began first and writes last", async () => {
    const start = await end();
    const [early, late] = [await open(), await open()];
    await early.sql`begin`;
    await early.sql`select pg_current_xact_id()`;
    await write("test.first", late);
    const between = await follow(start);
    await write("test.last", early);
    await early.sql`commit`;
    const { rows } = await followUntil("test.first", between.position);
    expect([...actionsOf(between), ...rows.map(({ action }) => action)]).toEqual(["test.last", "test.first"]);
  });

  test("returns each row once, page after page, while rows are added", async () => {
    const start = await end();
    const seen: string[] = [];
    let position = start;
    for (let round = 0; round < 10; round++) {
      for (const half of ["a", "b"]) await write(`test.${round}${half}`);
      const part = await follow(position, { limit: 1 });
      seen.push(...actionsOf(part));
      position = part.position;
    }
    seen.push(...actionsOf(await followUntil("test.9b", position)));
    expect(seen).toEqual(Array.from({ length: 20 }, (_, at) => `test.${at >> 1}${at % 2 ? "b" : "a"}`));
  });

  test("begins with the rows of an older program, which have no transaction", async () => {
    await using other = await createTestDatabase();
    for (const [id, xid] of [
      [7, "null"],
      [5, "null"],
      [3, "'3'"],
      [4, "'3'"],
      [2, "'4'"],
    ])
      await other.database.query((sql) =>
        sql.unsafe(
          `insert into audit (id, at, actor, action, xid) overriding system value
             values (${id}, now(), 'command:t', 'test.${id}', ${xid})`,
        ),
      );
    for (const limit of [1, 2, 3, 10]) {
      const ids: number[] = [];
      let after: string | undefined;
      for (let page = 0; page < 6; page++) {
        const part = await followAudit(other.database, { after, limit });
        if (isRefusal(part)) throw new Error(part.sentence);
        ids.push(...part.rows.map(({ id }) => id));
        after = part.position;
      }
      expect(ids).toEqual([5, 7, 3, 4, 2]);
    }
  });

  test("filters, and reads on behind the rows that do not match", async () => {
    const start = await end();
    const key = await issue(server.database, { email: "follow@example.org" });
    await write("test.other");
    const { position } = await followUntil("test.other", start);
    const keyUuid = parseId("key", key.id) ?? "";
    const accountUuid = parseId("usr", key.userId) ?? "";
    const none = { since: new Date(NOW.getTime() + 1) };
    for (const filter of [{ keyUuid }, { accountUuid }, { action: "key.issue", until: none.since }]) {
      const part = await follow(start, filter);
      expect(actionsOf(part)).toEqual(["key.issue"]);
      expect(part.position).toBe(position);
    }
    expect(actionsOf(await follow(start, { actor: "command:t" }))).toEqual(["test.other"]);
    expect(await follow(start, none)).toEqual({ rows: [], position });
  });

  test("refuses the position of another database, and of a row that the database lost", async () => {
    const position = await end();
    await using other = await createTestDatabase();
    await other.database.query(
      (sql) => sql`insert into audit (at, actor, action) values (now(), 'command:t', 'test.x')`,
    );
    expect(await followAudit(other.database, { after: position, limit: 1 })).toMatchObject({
      code: "CURSOR_EXPIRED",
    });
    const [identity, xid, id] = position.split(".");
    const lost = `${identity}.${xid}.${Number(id) + 1_000_000}`;
    const reused = `${identity}.${Number(xid) + 1}.${id}`;
    for (const after of [lost, reused])
      expect(await followAudit(server.database, { after, limit: 1 })).toMatchObject({
        code: "CURSOR_EXPIRED",
      });
    expect(actionsOf(await follow(position))).toEqual([]);
  });
});
