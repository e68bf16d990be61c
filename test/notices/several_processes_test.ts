/** Several processes look for notices at once, beside changes of operators. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { markDone } from "../../src/notices/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { inTransaction, overtake } from "../support/in_transaction.ts";
import { ACTOR, issue, orThrow } from "../support/issue.ts";
import { countRowsRead } from "../support/rows_read.ts";
import { useForEach } from "../support/use.ts";
import { audited, makeAt, notices, shown } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);
const END = new Date("2027-02-28T23:59:59Z");
const NOW = "2027-02-25T12:00:00Z";

/** Issues a key, made long before its end. */
const issueEnding = () => issue(server.database, { expiresAt: END, now: new Date("2026-01-01T00:00:00Z") });

/** Issues so many keys, made long before their end. */
const issueMany = (count: number, end: Date) =>
  server.database.query(
    (sql) => sql`
      with made as (
        insert into accounts (id, email, name, created_at)
        select gen_random_uuid(), gen_random_uuid() || '@example.org', 'Ada', '2026-01-01'
          from generate_series(1, ${count}::integer) as n
        returning id
      ),
      licensed as (
        insert into licenses (id, account_id, tier, expires_at, created_at)
        select gen_random_uuid(), id, 'free', ${end}::timestamptz, '2026-01-01' from made
        returning id
      )
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select gen_random_uuid(), id, sha256(id::text::bytea), 'svc_live_…', 'live', '2026-01-01' from licensed`,
  );

const renew = (license: string) => (sql: Parameters<Parameters<typeof server.database.query>[0]>[0]) =>
  sql`update licenses set expires_at = '2028-02-28T23:59:59Z' where id = ${license}::uuid`;

describe("two processes that look at the same time", () => {
  test("make each notice once, and withdraw it once", async () => {
    const licenses: string[] = [];
    // More than a statement looks at.
    await issueMany(620, END);
    for (let n = 0; n < 3; n++) licenses.push((await issueEnding()).licenseUuid);
    await Promise.all([1, 2, 3].map(() => makeAt(server.database, NOW)));
    expect((await shown(server.database, NOW)).length).toBe(623);
    expect(new Set(await shown(server.database, NOW))).toEqual(new Set(["license_end -7 open"]));
    expect((await audited(server.database)).length).toBe(623);
    await server.database.query((sql) => sql`update licenses set expires_at = '2028-02-28T23:59:59Z'`);
    await Promise.all([1, 2, 3].map(() => makeAt(server.database, NOW)));
    expect(new Set(await shown(server.database, NOW))).toEqual(new Set(["license_end -7 withdrawn"]));
    expect((await audited(server.database)).length).toBe(2 * 623);
  });
});

describe("a renewal in the same second", () => {
  test("that is committed after the look leaves no notice open", async () => {
    const { licenseUuid } = await issueEnding();
    await inTransaction(server.address, async (sql) => {
      await renew(licenseUuid)(sql);
      // It neither waits for the renewal nor sees it.
      await makeAt(server.database, NOW);
      expect(await shown(server.database, NOW)).toEqual(["license_end -7 open"]);
    });
    await makeAt(server.database, NOW);
    expect(await shown(server.database, NOW)).toEqual(["license_end -7 withdrawn"]);
  });

  test("does not wait for a statement that looks", async () => {
    const { licenseUuid } = await issueEnding();
    await makeAt(server.database, NOW);
    const [notice] = await notices(server.database, NOW);
    await inTransaction(server.address, async (sql) => {
      await sql`select from notices where id = ${parseId("ntc", notice?.id ?? "") ?? ""}::uuid for update`;
      await server.database.query(renew(licenseUuid));
      // A notice that another statement holds is withdrawn at the next look.
      await makeAt(server.database, NOW);
      expect(await shown(server.database, NOW)).toEqual(["license_end -7 open"]);
    });
    await makeAt(server.database, NOW);
    expect(await shown(server.database, NOW)).toEqual(["license_end -7 withdrawn"]);
  });
});

test("Of two operators who mark a notice as done at once, one does", async () => {
  await issueEnding();
  await makeAt(server.database, NOW);
  const [notice] = await notices(server.database, NOW);
  const uuid = parseId("ntc", notice?.id ?? "") ?? "";
  const by = { actor: ACTOR, now: new Date(NOW) };
  const second = await overtake(
    server,
    (sql) => sql`update notices set state = 'done', closed_at = now() where id = ${uuid}::uuid`,
    () => markDone(server.database, uuid, by),
  );
  expect(orThrow(second)).toEqual({ isChanged: false });
  expect(await audited(server.database)).toEqual(["notice.make license_end 7"]);
});

test("A look reads the licenses whose end is near, and no others", async () => {
  await server.database.query(
    (sql) => sql`
      with made as (
        insert into accounts (id, email, name, created_at) values (gen_random_uuid(), 'many@example.org', 'Ada', '2026-01-01')
        returning id
      )
      insert into licenses (id, account_id, tier, expires_at, created_at)
      select gen_random_uuid(), id, 'free', '2030-01-01'::timestamptz + n * interval '1 minute', '2026-01-01'
        from made, generate_series(1, 5000) as n`,
  );
  await issueEnding();
  await server.database.query((sql) => sql`analyze licenses`);
  const read = await countRowsRead(server.database, (explained) => makeAt(explained, NOW));
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThan(200);
});

test("A statement that makes notices does not read those that are open already", async () => {
  await issueMany(2_000, END);
  await server.database.query((sql) => sql`vacuum analyze`);
  await makeAt(server.database, NOW);
  // Their end is nearer, so the first statement finds these.
  await issueMany(500, new Date("2027-02-27T23:59:59Z"));
  const read = await countRowsRead(server.database, (explained) => makeAt(explained, NOW));
  expect(read).toBeWithin(500, 20_000);
});
