/** Pages of the audit log have the rows that a naive reference finds, and a rare filter does not read the whole log. */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  type AuditFilter,
  type AuditPart,
  type AuditRow,
  followAudit,
  type ListedAuditRow,
  listAudit,
} from "../../src/audit/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import type { TestDatabase } from "../support/database.ts";
import { NOW } from "../support/issue.ts";
import { countRowsRead } from "../support/rows_read.ts";
import { useTestDatabase } from "../support/use.ts";

const ROWS = 12_000;
const DAY_MS = 86_400_000;
const ago = (days: number) => new Date(NOW.getTime() - days * DAY_MS);

const server = useTestDatabase();
/** The whole log, oldest first. */
let all: readonly ListedAuditRow[];

beforeAll(async () => {
  // Three years. The older half has no transactions. Times are not in the order of the rows: every tenth is a day late.
  await server.database.query(
    (sql) => sql`
      insert into audit (at, actor, action, account_id, key_id, xid)
      select ${NOW}::timestamptz - interval '1 day' * (1095 * (1 - n / ${ROWS}::float8) - case when n % 10 = 0 then 1 else 0 end),
             case when n % 2000 = 9 then 'operator:pia' when n % 3 = 0 then 'command:root' else 'token:shop' end,
             case when n % 3000 = 8 then 'account.erase' when n % 5 = 0 then 'key.revoke' else 'key.issue' end,
             md5('account ' || n % 50)::uuid, md5('key ' || n / 2)::uuid,
             case when n > ${ROWS / 2}::integer then (3 + n / 1000)::text::xid8 end
        from generate_series(1, ${ROWS}::integer) as n`,
    { deadlineMs: 20_000 },
  );
  await server.database.query((sql) => sql`vacuum analyze audit`);
  all = (await listAudit(server.database, { limit: 2 * ROWS })).toReversed();
});

function meets(row: AuditRow, { actor, action, keyUuid, accountUuid, since, until }: AuditFilter): boolean {
  return (
    (actor === undefined || row.actor === actor) &&
    (action === undefined || row.action === action) &&
    (keyUuid === undefined || row.keyId === `key_${keyUuid.replaceAll("-", "")}`) &&
    (accountUuid === undefined || row.userId === `usr_${accountUuid.replaceAll("-", "")}`) &&
    (since === undefined || row.at >= since) &&
    (until === undefined || row.at < until)
  );
}

async function follow(filter: AuditFilter, limit: number, after?: string): Promise<AuditPart> {
  const part = await followAudit(server.database, { filter, limit, after });
  if (isRefusal(part)) throw new Error(part.sentence);
  return part;
}

/** Reads the first two pages, newest first. */
async function readPages(filter: AuditFilter, limit: number): Promise<(readonly AuditRow[])[]> {
  const first = await listAudit(server.database, { ...filter, limit });
  const after = first.at(-1)?.position;
  return [first, after === undefined ? [] : await listAudit(server.database, { ...filter, limit, after })];
}

const uuidOf = (id: string | null) =>
  (id ?? "").replace(/^..._(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

describe("a page of the audit log", () => {
  test("has the same rows as a naive reference, from both ends", async () => {
    expect(all).toHaveLength(ROWS);
    const filters: AuditFilter[] = [];
    for (const actor of [undefined, "token:shop", "operator:pia", "token:none"])
      for (const action of [undefined, "key.revoke", "account.erase"])
        for (const [since, until] of [[], [ago(400)], [undefined, ago(400)], [ago(700), ago(650)]])
          filters.push({ actor, action, since, until });
    filters.push({ keyUuid: uuidOf(all[700]?.keyId ?? null) });
    filters.push({ accountUuid: uuidOf(all[7]?.userId ?? null), action: "key.revoke" });
    const ids = (rows: readonly AuditRow[]) => rows.map(({ id }) => id);
    for (const filter of filters) {
      const expected = ids(all.filter((row) => meets(row, filter)));
      const what = JSON.stringify(filter);
      expect(ids(await listAudit(server.database, { ...filter, limit: 9 })), what).toEqual(
        expected.slice(-9).toReversed(),
      );
      const [newest = [], older = []] = await readPages(filter, 800);
      expect(ids([...newest, ...older]), what).toEqual(expected.slice(-1_600).toReversed());
      const first = await follow(filter, 700);
      expect(ids(first.rows), what).toEqual(expected.slice(0, 700));
      const second = await follow(filter, 900, first.position);
      expect(ids(second.rows), what).toEqual(expected.slice(700, 1_600));
    }
  });

  test("continues from newest to oldest across the rows without transactions, to the end of the log", async () => {
    const read: ListedAuditRow[] = [];
    let page: readonly ListedAuditRow[];
    do {
      page = await listAudit(server.database, { limit: 700, after: read.at(-1)?.position });
      read.push(...page);
    } while (page.length > 0);
    expect(read).toEqual(all.toReversed());
    const first = await listAudit(server.database, { limit: 700, after: "x.y" });
    expect(first).toEqual(read.slice(0, 700));
  });

  const rare: readonly (readonly [name: string, AuditFilter])[] = [
    ["a rare actor", { actor: "operator:pia" }],
    ["an unknown actor", { actor: "token:none" }],
    ["a rare action", { action: "account.erase" }],
    ["an actor that never did it", { actor: "operator:pia", action: "account.erase" }],
    ["two frequent values that are never together", { actor: "command:root", action: "account.erase" }],
    ["a time long ago", { until: ago(1_000) }],
    ["a time that is not long ago", { since: ago(3) }],
    ["an action of a week", { action: "key.issue", since: ago(507), until: ago(500) }],
  ];
  for (const [name, filter] of rare) {
    test(`reads few rows for ${name}`, async () => {
      for (const run of [
        (database: TestDatabase["database"]) => listAudit(database, { ...filter, limit: 3 }),
        (database: TestDatabase["database"]) =>
          listAudit(database, { ...filter, limit: 3, after: "99.999999" }).catch(() => {}),
        (database: TestDatabase["database"]) => followAudit(database, { filter, limit: 3 }).catch(() => {}),
      ]) {
        expect(await countRowsRead(server.database, run)).toBeLessThan(ROWS / 10);
      }
    });
  }
});
