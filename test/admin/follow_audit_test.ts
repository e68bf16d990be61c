/** `GET /audit`: programs follow the log, miss no row, and learn when the database is another one. */

import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { parseCursor, renderCursor } from "../../src/admin/frame/api/cursor.ts";
import { AUDIT_POSITION } from "../../src/audit/mod.ts";
import { parseId, toId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { openSession } from "../../src/database/mod.ts";
import { revokeKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { backUp, prove, tryRestore } from "../installation/backup/backup_kit.ts";
import { startAdmin } from "../support/admin.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, NOW } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { commandsOn } from "./commands_on.ts";

interface AuditRow {
  readonly id: number;
  readonly unique_id: string | null;
  readonly action: string;
  readonly actor: string;
  readonly reason: string | null;
  readonly after: { readonly expires_at?: string | null } | null;
}

const folder = useFolder();
const admin = useAdmin();
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));

async function read(query = "", from = admin): Promise<{ data: AuditRow[]; next: string }> {
  const { status, body } = await from.call("GET", `/audit${query}`);
  expect({ status, body }).toMatchObject({ status: 200 });
  return body;
}

/** Follows until a row meets the condition. Transactions of other tests may delay it. */
async function follow(query: string, isLast: (row: AuditRow) => boolean, after?: string) {
  const rows: AuditRow[] = [];
  let next = after;
  await until(async () => {
    const page = await read(`?limit=2${query}${next === undefined ? "" : `&after=${next}`}`);
    rows.push(...page.data);
    ({ next } = page);
    return rows.some(isLast);
  });
  return { rows, next: next ?? "" };
}

async function suspend(id: string, reason: string): Promise<void> {
  const { status } = await admin.call("POST", `/keys/${id}/suspend`, { body: { reason } });
  expect(status).toBe(200);
}

describe("GET /audit", () => {
  test("shows the rows that `claviger audit` shows, oldest first, and then goes on", async () => {
    const key = await admin.issue();
    await suspend(key.id, "unpaid");
    const { rows, next } = await follow("", ({ reason }) => reason === "unpaid");
    expect(rows).toEqual((await commands.json(["audit"])).toReversed());
    expect(rows.at(-1)).toMatchObject({
      actor: expect.stringMatching(/^token:/),
      door: "api",
      action: "key.suspend",
      key_id: key.id,
      request: expect.stringMatching(/^req_/),
      address: "127.0.0.1",
    });
    const issued = rows.find(({ action }) => action === "key.issue");
    expect(issued?.after?.expires_at).toMatch(/T\d\d:\d\d:\d\dZ$/);

    const empty = await read(`?after=${next}`);
    expect(empty.data).toEqual([]);
    expect(empty.next).toBeString();
    const later = await admin.issue();
    await suspend(later.id, "later");
    const more = await follow("", ({ reason }) => reason === "later", empty.next);
    expect(more.rows.map(({ action }) => action)).toEqual(["key.issue", "key.suspend"]);
  });

  test("misses no row of a transaction that commits late", async () => {
    const { next } = await read("?limit=100");
    const [slow, fast] = [1, 2].map(() =>
      openSession(admin.testDatabase.address, { statementTimeoutMs: 10_000 }),
    );
    if (slow === undefined || fast === undefined) throw new Error("No sessions");
    const insert = (session: typeof slow, action: string) =>
      session.sql`insert into audit (at, actor, action) values (now(), 'command:t', ${action})`;
    try {
      await slow.connect();
      await fast.connect();
      await slow.sql`begin`;
      await insert(slow, "late.commit");
      await insert(fast, "early.commit");
      const between = await read(`?limit=100&after=${next}`);
      expect(between.data.filter(({ action }) => action.endsWith(".commit"))).toEqual([]);
      await slow.sql`commit`;
      const { rows } = await follow("", ({ action }) => action === "early.commit", between.next);
      // A transaction of another test on the server can delay earlier rows, too.
      const commits = rows.map(({ action }) => action).filter((action) => action.endsWith(".commit"));
      expect(commits).toEqual(["late.commit", "early.commit"]);
    } finally {
      await slow.close();
      await fast.close();
    }
  });

  test("filters as `claviger audit` does, and refuses a cursor of other filters", async () => {
    const key = await admin.issue({ email: "audited@example.org" });
    await suspend(key.id, "for filters");
    const uuid = parseId("key", key.id) ?? "";
    await revokeKey(createLicenseChanges(admin.database), { uuid }, { actor: ACTOR, now: admin.clock.now() });
    const { rows } = await follow("", ({ action }) => action === "key.revoke");
    const actor = rows.find(({ reason }) => reason === "for filters")?.actor ?? "";
    expect(actor).toStartWith("token:");
    for (const [name, value] of [
      ["key", key.id],
      ["account", key.userId],
      ["account", "Audited@example.org"],
      ["actor", actor],
      ["actor", "command:nobody"],
      ["action", "key.suspend"],
      ["since", new Date(admin.clock.now().getTime() - 1_000).toISOString()],
      ["until", "2020-01-01T00:00:00Z"],
    ] as const) {
      const query = `?limit=100&${name}=${encodeURIComponent(value)}`;
      const page = await read(query);
      const listed = await commands.json(["audit", "--limit", "1000", `--${name}`, value]);
      expect({ name, rows: page.data }).toEqual({ name, rows: listed.toReversed() });
      expect((await read(`${query}&after=${page.next}`)).data).toEqual([]);
      const { status, body } = await admin.call("GET", `/audit?after=${page.next}`);
      expect({ name, status, field: body.details?.[0]?.field }).toEqual({
        name,
        status: 400,
        field: "after",
      });
    }
  });

  test("and `claviger audit` show the rows of an account that is gone, by its id", async () => {
    const gone = toId("usr", "019a0000-0000-7000-8000-000000000abc");
    await admin.database.query(
      (sql) => sql`
        insert into audit (at, actor, action, account_id)
        values (${NOW}::timestamptz, 'command:t', 'gone.row', ${parseId("usr", gone) ?? ""}::uuid)`,
    );

    const { rows } = await follow(`&account=${gone}`, ({ action }) => action === "gone.row");

    expect(rows).toHaveLength(1);
    expect(await commands.json(["audit", "--account", gone])).toMatchObject([{ action: "gone.row" }]);
  });

  test("refuses a cursor with the right digest and a transaction that PostgreSQL cannot read", async () => {
    const { next } = await read();
    const list = { name: "audit", filters: {}, position: AUDIT_POSITION };
    const cursor = parseCursor(list, next, NOW);
    const position = isRefusal(cursor) ? "" : (cursor.position ?? "");
    for (const wrong of [position.replace(".", ".08"), position.replace(".", ".00")]) {
      const after = renderCursor(list, { at: NOW, position: wrong });
      expect((await admin.call("GET", `/audit?after=${after}`)).status).toBe(400);
    }
  });

  test("answers 410 to a cursor after a restore, and the restored log begins again, whose new rows have ids of their own", async () => {
    const key = await admin.issue();
    await suspend(key.id, "before the backup");
    const { rows, next } = await follow("", ({ reason }) => reason === "before the backup");
    const target = await createTestDatabase({ empty: true });
    const path = join(folder, "backup");
    await backUp(admin.testDatabase.address, path);
    await suspend((await admin.issue()).id, "lost");
    const lost = (await follow("", ({ reason }) => reason === "lost", next)).rows;
    await tryRestore(target.address, await prove(path));
    const restored = await startAdmin({ on: target });
    try {
      const token = await restored.token();
      const refused = await restored.call("GET", `/audit?after=${next}`, { token });
      expect({ status: refused.status, code: refused.body.code }).toEqual({
        status: 410,
        code: "CURSOR_EXPIRED",
      });
      expect(refused.body.error).toContain("read the audit log again from its beginning, without `after`");
      const seen: AuditRow[] = [];
      for (let after = ""; !seen.some(({ action }) => action === "database.restore"); ) {
        const { body } = await restored.call("GET", `/audit?limit=3${after}`, { token });
        seen.push(...body.data);
        after = `&after=${body.next}`;
        // Other tests' transactions on this server delay the last rows; a token has 600 requests a minute.
        if (body.data.length === 0) await Bun.sleep(20);
      }
      expect(seen.slice(0, rows.length)).toEqual(rows);
      // The restored database gives the numbers of lost rows again.
      const others = seen.slice(rows.length);
      expect(others.map(({ id }) => id)).toContain(lost[0]?.id ?? 0);
      const uniqueIds = [...rows, ...lost, ...others].map(({ unique_id }) => unique_id);
      expect(new Set(uniqueIds).size).toBe(uniqueIds.length);
      for (const id of uniqueIds) expect(id).toMatch(/^aud_[0-9a-f]{32}$/);
    } finally {
      await restored.close();
      await target.close();
    }
  });
});
