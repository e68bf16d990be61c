/** An account is erased with all its keys, in bounded statements, and gets no key in between. */
import { describe, expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { counted } from "../../../src/base/render_count.ts";
import { type Database, MOST_COUNTED, openSession } from "../../../src/database/mod.ts";
import {
  eraseWithKeys,
  findErasureEffect,
  type IssuedKey,
  importKeys,
  parseImportFields,
  resumeKey,
  rotateKey,
  suspendKey,
} from "../../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  findAccount,
  renderWithErasure,
} from "../../../src/licensing/mod.ts";
import { databaseOf, overtake } from "../../support/in_transaction.ts";
import { ACTOR, BRAND, issue, NOW, orThrow, tryToIssue } from "../../support/issue.ts";
import { accountOf, uuidOf } from "../../support/keys.ts";
import { useForAll, useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();
const session = useForAll(async () => openSession(server.address, { statementTimeoutMs: 20_000 }));
const BY = { actor: { ...ACTOR, reason: "request 17" }, now: NOW };
const ALL = { ...BY, revokesKeys: true };
const changes = () => createLicenseChanges(server.database);

/** Issues the first key of an account, and adds more, each with a license that has an external id. */
async function withKeys(email: string, more: number): Promise<IssuedKey> {
  const key = await issue(server.database, { email, externalId: `order of ${email}` });
  await server.database.query(
    (sql) => sql`
      with license as (
        insert into licenses (id, account_id, tier, expires_at, created_at, external_id)
        select gen_random_uuid(), ${accountOf(key)}::uuid, 'free', '2030-01-01', ${NOW}::timestamptz, ${email} || n
          from generate_series(1, ${more}::integer) n
        returning id
      )
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select gen_random_uuid(), id, sha256(id::text::bytea), 'svc_live_…0000', 'live', ${NOW}::timestamptz
        from license`,
  );
  return key;
}

/** Returns a database that is lost after so many statements. */
function lostAfter(statements: number): Database {
  let left = statements;
  return {
    ...server.database,
    query: ((...args: Parameters<Database["query"]>) => {
      if (left-- === 0) throw new Error("killed");
      return server.database.query(...args);
    }) as Database["query"],
  };
}

async function countRevocations(key: IssuedKey): Promise<number> {
  const [row] = await server.database.query<{ rows: number }>(
    (sql) => sql`
      select count(distinct key_id) filter (where reason = 'request 17') as rows from audit
       where action = 'key.revoke' and account_id = ${accountOf(key)}::uuid`,
  );
  return row?.rows ?? 0;
}

describe("eraseWithKeys()", () => {
  test("revokes 2,001 keys, each with its row of the audit log, and erases the person", async () => {
    const key = await withKeys("many@example.org", 2_000);
    const uuid = accountOf(key);
    expect(await findErasureEffect(server.database, uuid)).toEqual({
      keysInUse: 2_001,
      licenses: 2_001,
      externalIds: 2_001,
      formerEmails: 0,
      machines: 0,
      auditRows: 1,
    });
    expect(await eraseWithKeys(changes(), uuid, ALL)).toEqual({
      revoked: 2_001,
      isErased: true,
      isPersonal: true,
    });
    expect(await findErasureEffect(server.database, uuid)).toMatchObject({
      keysInUse: 0,
      externalIds: 0,
      // The issue, each revocation, and the erasure.
      auditRows: 2_003,
    });
    expect(await countRevocations(key)).toBe(2_001);
    expect(await eraseWithKeys(changes(), uuid, ALL)).toEqual({
      revoked: 0,
      isErased: true,
      isPersonal: false,
    });
  });

  test("counts what an erasure removes and keeps up to 10,000, and says if there is more", async () => {
    const uuid = accountOf(await withKeys("crowd@example.org", 10_010));
    await server.database.query(
      (sql) => sql`
        insert into audit (at, actor, action, account_id)
        select ${NOW}::timestamptz, 'command:root', 'account.update', ${uuid}::uuid from generate_series(1, 10010)`,
    );
    expect(await findErasureEffect(server.database, uuid)).toEqual({
      keysInUse: 10_001,
      licenses: 10_001,
      externalIds: 10_001,
      formerEmails: 0,
      machines: 0,
      auditRows: 10_001,
    });
    expect(counted(10_001, "key", { most: MOST_COUNTED })).toBe("more than 10,000 keys");
  });

  test("refuses an account with a key in use if it is not to revoke keys, and an unknown account", async () => {
    const key = await issue(server.database);
    expect(await eraseWithKeys(changes(), accountOf(key), { ...BY, revokesKeys: false })).toMatchObject({
      sentence: "Cannot erase account: a key of it is not revoked; revoke its keys first",
    });
    expect(await eraseWithKeys(changes(), newUuid(), ALL)).toMatchObject({ code: "NOT_FOUND" });
    expect(await countRevocations(key)).toBe(0);
  });

  test("goes on after a kill between two batches, and the account gets no key in between", async () => {
    const email = "killed@example.org";
    const key = await withKeys(email, 800);
    const uuid = accountOf(key);
    await suspendKey(changes(), uuidOf(key), BY);
    const killed = createLicenseChanges(lostAfter(1));
    expect(eraseWithKeys(killed, uuid, ALL)).rejects.toThrow("killed");
    const { keysInUse } = await findErasureEffect(server.database, uuid);
    expect(keysInUse).toBe(301);
    const account = await findAccount(server.database, { uuid });
    expect(account && renderWithErasure(account)).toMatchObject({
      email,
      erasure: { began_at: expect.any(String), is_complete: false, erased_at: null },
    });

    const left = await server.database.query<{ uuid: string; licenseUuid: string }>(
      (sql) => sql`
        select k.id as uuid, license_id as "licenseUuid" from keys k join licenses l on l.id = license_id
         where account_id = ${uuid}::uuid and state = 'active' limit 1`,
    );
    const [one] = left;
    if (one === undefined) throw new Error("A key is left");
    const WHY = expect.stringContaining("the person is being erased from its account");
    expect(await tryToIssue(server.database, { email })).toMatchObject({ code: "CONFLICT", sentence: WHY });
    const line = parseImportFields({ sha256: "a".repeat(64), mode: "live", email, tier: "free" }, BRAND);
    const imported = importKeys(session, [{ key: orThrow(line), line: 1 }], {
      ...BY,
      usageCte: (sql) => sql`select`,
    });
    expect(await imported).toMatchObject({ code: "CONFLICT", sentence: WHY });
    const rotation = { uuid: one.uuid, mode: "live", overlapMs: 0 } as const;
    expect(await rotateKey(changes(), rotation, { ...BY, brand: BRAND })).toMatchObject({ sentence: WHY });
    const renewal = { ...BY, change: { expiresAt: new Date("2031-01-01") } };
    expect(await changeLicense(changes(), one, renewal)).toMatchObject({ code: "CONFLICT" });
    await suspendKey(changes(), one.uuid, BY);
    expect(await resumeKey(changes(), one.uuid, BY)).toMatchObject({ sentence: WHY });

    expect(await eraseWithKeys(changes(), uuid, ALL)).toMatchObject({ revoked: 301, isErased: true });
    expect(await countRevocations(key)).toBe(801);
    // A person who comes back gets a new account.
    expect(accountOf(await issue(server.database, { email }))).not.toBe(uuid);
  });

  test("stops when its time is over, and the next call goes on", async () => {
    const key = await withKeys("time@example.org", 10);
    expect(await eraseWithKeys(changes(), accountOf(key), { ...ALL, mostMs: -1 })).toEqual({
      revoked: 0,
      isErased: false,
      isPersonal: true,
    });
    expect(await eraseWithKeys(changes(), accountOf(key), ALL)).toMatchObject({
      revoked: 11,
      isErased: true,
    });
  });

  test("revokes a key that is issued at the same moment, too", async () => {
    const email = "moment@example.org";
    const key = await issue(server.database, { email });
    const outcome = await overtake(
      server,
      (sql) => issue(databaseOf(sql, server.database), { email }),
      () => eraseWithKeys(changes(), accountOf(key), ALL),
    );
    expect(outcome).toMatchObject({ revoked: 2, isErased: true });
  });

  test("a key that is issued while the first keys are being revoked is refused", async () => {
    const email = "late@example.org";
    const key = await issue(server.database, { email });
    const outcome = await overtake(
      server,
      (sql) =>
        eraseWithKeys(createLicenseChanges(databaseOf(sql, server.database)), accountOf(key), {
          ...ALL,
          mostMs: 60_000,
        }),
      () => tryToIssue(server.database, { email }),
    );
    expect(isRefusal(outcome) || accountOf(outcome) !== accountOf(key)).toBe(true);
    expect((await findErasureEffect(server.database, accountOf(key))).keysInUse).toBe(0);
  });
});
