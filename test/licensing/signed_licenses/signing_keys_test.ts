/** Changes of the signing keys during signatures, and changes that a kill interrupts. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { parseId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { type DatabaseSession, openSession, toTextArray } from "../../../src/database/mod.ts";
import {
  createLicenseSigner,
  ensureSigningKeys,
  type LicenseSigner,
  listSigningKeys,
  retireSigningKey,
  rotateSigningKey,
  verifySignature,
} from "../../../src/licensing/signed_licenses/mod.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { startFaultyProxy } from "../../support/faulty_proxy.ts";
import { ACTOR, BRAND, issue } from "../../support/issue.ts";
import { openSecrets } from "../../support/secrets.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const secrets = openSecrets();
const offlineDays = { free: 1, research: 7, commercial: 14, enterprise: 30 };

const testDatabase = useTestDatabase();
let signer: LicenseSigner;
let keyUuid: string;

beforeAll(async () => {
  const { database } = testDatabase;
  await ensureSigningKeys(database, { secrets, now: new Date() });
  signer = createLicenseSigner({ database, brand: BRAND, publicUrl: undefined, offlineDays, secrets });
});
beforeEach(async () => {
  keyUuid = parseId("key", (await issue(testDatabase.database, { now: new Date() })).id) ?? "";
});

async function sign(now = new Date()) {
  const signed = await signer.sign({ keyUuid, actor: ACTOR, now });
  return isRefusal(signed) ? { kid: undefined, code: signed.code } : signed;
}

async function kidOf(wanted: string): Promise<string> {
  const found = (await listSigningKeys(testDatabase.database)).find(({ state }) => state === wanted);
  return found?.kid ?? "";
}

async function isRetired(kid: string): Promise<boolean> {
  const [row] = await testDatabase.database.query<{ isRetired: boolean }>(
    (sql) => sql`select retired_at is not null as "isRetired" from signing_keys where kid = ${kid}`,
  );
  return row?.isRetired ?? false;
}

const change = () => ({ secrets, actor: ACTOR, now: new Date() });

async function withSession<Result>(work: (session: DatabaseSession) => Promise<Result>): Promise<Result> {
  const session = openSession(testDatabase.address, { statementTimeoutMs: 20_000 });
  try {
    return await work(session);
  } finally {
    await session.close();
  }
}

/** Does the work while keys have times an hour later, as if the database's clock were behind; `begun` begins as before. */
async function withLaterTimes(
  { kids, begun }: { readonly kids: readonly string[]; readonly begun: string },
  work: () => Promise<void>,
): Promise<void> {
  const move = (by: string) =>
    testDatabase.database.query(
      (sql) => sql`
        update signing_keys
           set signs_from = signs_from + case when kid = ${begun} then '0' else ${by}::interval end,
               signs_until = signs_until + ${by}::interval
         where kid = any(${toTextArray([...kids, begun])}::text[])`,
    );
  await move("1 hour");
  try {
    await work();
  } finally {
    await move("-1 hour");
  }
}

/** Waits until that many connections to this database wait for a lock. */
async function untilWaiting(count: number): Promise<void> {
  await until(async () => (await countWaiting(testDatabase.database)) === count);
}

describe("retireSigningKey()", () => {
  test("makes a signature wait that comes while the key is retired, and the retired key does not sign it", async () => {
    await rotateSigningKey(testDatabase.database, change());
    await sign();
    const retired = await kidOf("signing");
    await withSession((blocker) =>
      withSession(async (session) => {
        let retirement: Promise<unknown> | undefined;
        let signature: ReturnType<typeof sign> | undefined;
        await blocker.transaction(async (sql) => {
          // The retirement has locked the key's row, and waits here for the count of exported licenses.
          await sql`lock table exported_licenses in access exclusive mode`;
          retirement = retireSigningKey(session, retired, { ...change(), isLeaked: true });
          await untilWaiting(1);
          signature = sign();
          await untilWaiting(2);
        });
        expect(await retirement).toMatchObject({ stillValid: 1 });
        const signed = await signature;
        expect(signed?.kid).not.toBe(retired);
        if (signed !== undefined && "code" in signed) expect(signed.code).toBe("SERVICE_UNAVAILABLE");
      }),
    );
    expect((await sign()).kid).toBe(await kidOf("signing"));
    expect(await isRetired(retired)).toBe(true);
  });

  test("waits for a signature in progress, and then refuses because its license is valid", async () => {
    await rotateSigningKey(testDatabase.database, change());
    const old = await kidOf("signing");
    // Its license has expired by now, so only the second one can be the reason of the refusal.
    await sign(new Date(Date.now() - 30 * 86_400_000));
    await withSession((blocker) =>
      withSession(async (session) => {
        let signature: ReturnType<typeof sign> | undefined;
        let retirement: Promise<unknown> | undefined;
        await blocker.transaction(async (sql) => {
          // The signature has chosen its key, and waits here to note the license.
          await sql`select from signed_licenses where key_id = ${keyUuid}::uuid for update`;
          signature = sign();
          await untilWaiting(1);
          expect(await rotateSigningKey(testDatabase.database, change())).toMatchObject({ previous: old });
          retirement = retireSigningKey(session, old, { ...change(), isLeaked: false });
          await untilWaiting(2);
        });
        expect((await signature)?.kid).toBe(old);
        expect(await retirement).toMatchObject({
          code: "CONFLICT",
          sentence: expect.stringContaining("1 key has a license that it signed, valid until"),
        });
      }),
    );
    const keys = await listSigningKeys(testDatabase.database);
    expect(keys.find(({ kid }) => kid === old)?.state).toBe("old");
  });

  test("refuses the successor and the signing key, and both can be retired at once if they leaked", async () => {
    await withSession(async (session) => {
      for (const state of ["successor", "signing"]) {
        const kid = await kidOf(state);
        const refused = await retireSigningKey(session, kid, { ...change(), isLeaked: false });
        expect(refused).toMatchObject({ code: "CONFLICT" });
        expect(isRefusal(await retireSigningKey(session, kid, { ...change(), isLeaked: true }))).toBe(false);
        await expectWorkingKeys();
        const again = await retireSigningKey(session, kid, { ...change(), isLeaked: true });
        expect(again).toMatchObject({ sentence: "Cannot retire signing key: it is retired already" });
      }
      const unknown = await retireSigningKey(session, "x".repeat(43), { ...change(), isLeaked: true });
      expect(unknown).toMatchObject({ code: "NOT_FOUND" });
    });
  });

  test("leaves a key that signs, also if the database's clock is behind after a failover", async () => {
    await rotateSigningKey(testDatabase.database, change());
    const retired = await kidOf("signing");
    const outcome = await withSession((session) =>
      retireSigningKey(session, retired, { ...change(), isLeaked: true }),
    );
    expect(isRefusal(outcome)).toBe(false);
    const [signing, old] = [await kidOf("signing"), await kidOf("old")];
    // By that clock the retired key would sign, and neither the signing key nor the old key has begun to.
    await withLaterTimes({ kids: [signing, old], begun: retired }, expectWorkingKeys);
  });

  test("does not hold up signatures for long if its process or its connection hangs", async () => {
    const kid = await kidOf("signing");
    const proxy = await startFaultyProxy(testDatabase.address);
    const session = openSession(proxy.address, { statementTimeoutMs: 20_000 });
    await withSession((blocker) =>
      blocker.transaction(async (sql) => {
        await sql`select from signing_keys where kid = ${kid} for update`;
        const options = { ...change(), isLeaked: true, longestPauseMs: 100 };
        retireSigningKey(session, kid, options).catch(() => {});
        await untilWaiting(1);
        proxy.set("stalled");
      }),
    );
    expect((await sign()).kid).toBe(kid);
    await proxy.close();
    await session.close();
    await expectWorkingKeys();
  });

  test("leaves the choice to the database's clock: before the time of a rotation the earlier key signs", async () => {
    const earlier = await kidOf("signing");
    await rotateSigningKey(testDatabase.database, change());
    await withLaterTimes({ kids: [await kidOf("signing")], begun: earlier }, async () => {
      expect((await sign(new Date(Date.now() + 2 * 3_600_000))).kid).toBe(earlier);
    });
    await expectWorkingKeys();
  });

  test("retires an old key once its licenses have expired, by the clock of the command and by that of the database", async () => {
    const DAY_MS = 86_400_000;
    await rotateSigningKey(testDatabase.database, change());
    await withSession(async (session) => {
      const old = await kidOf("signing");
      const exported = await signer.export({
        keyUuid,
        days: 3_650,
        actor: ACTOR,
        now: new Date(Date.now() - 3_649 * DAY_MS),
      });
      expect(exported).toMatchObject({ kid: old });
      await rotateSigningKey(testDatabase.database, change());
      const afterItsEnd = new Date(Date.now() + 2 * DAY_MS);
      for (const now of [new Date(), afterItsEnd, new Date(0)]) {
        const refused = await retireSigningKey(session, old, { ...change(), now, isLeaked: false });
        expect(refused).toMatchObject({ sentence: expect.stringContaining("1 key has a license") });
      }
      const expired = await kidOf("signing");
      await sign(new Date(Date.now() - 8 * DAY_MS));
      await rotateSigningKey(testDatabase.database, change());
      const retired = await retireSigningKey(session, expired, { ...change(), isLeaked: false });
      expect(retired).toEqual({ stillValid: 0, rotation: undefined });
      expect(await isRetired(expired)).toBe(true);
    });
  });

  test("and a rotation are in the audit log, with the keys and the number of licenses still valid", async () => {
    const { database } = testDatabase;
    await rotateSigningKey(database, change());
    const [previous, successor] = [await kidOf("signing"), await kidOf("successor")];
    await sign();
    await withSession((session) => retireSigningKey(session, previous, { ...change(), isLeaked: true }));
    const entries = await database.query(
      (sql) => sql`select action, actor, before, after from audit order by id desc limit 2`,
    );
    const next = await kidOf("successor");
    const byTester = { actor: "command:tester" };
    expect([...entries]).toEqual([
      {
        ...byTester,
        action: "signing_key.retire",
        before: null,
        after: { signing_key: previous, licenses_still_valid: 1 },
      },
      {
        ...byTester,
        action: "signing_key.rotate",
        before: { signing_key: previous },
        after: { signing_key: successor, successor: next },
      },
    ]);
  });

  test("and a rotation at the same moment do not wait for each other", async () => {
    const kid = await kidOf("signing");
    await withSession((blocker) =>
      withSession(async (session) => {
        let changes: Promise<unknown[]> | undefined;
        await blocker.transaction(async (sql) => {
          await sql`lock table exported_licenses in access exclusive mode`;
          const retirement = retireSigningKey(session, kid, { ...change(), isLeaked: true });
          await untilWaiting(1);
          const rotation = rotateSigningKey(testDatabase.database, change());
          changes = Promise.all([retirement, rotation]);
          await untilWaiting(2);
        });
        expect(await changes).toMatchObject([{ rotation: { previous: kid } }, { code: "CONFLICT" }]);
      }),
    );
    await expectWorkingKeys();
  });
});

/** Expects one signing key and one successor, and a new license that the published keys verify. */
async function expectWorkingKeys(): Promise<void> {
  const signed = await sign();
  const keys = await listSigningKeys(testDatabase.database);
  const states = keys.map(({ state }) => state).filter((state) => state !== "old");
  expect(states).toEqual(["signing", "successor"]);
  expect(signed.kid).toBe(keys.find(({ state }) => state === "signing")?.kid ?? "");
  const trusted = keys.map(({ publicKey }) => publicKey);
  expect(verifySignature("license" in signed ? signed.license : "", trusted)).toMatchObject({ ok: true });
}

describe("a kill -9 at every step of a change of the signing keys", () => {
  /** Runs the change in a process that is killed at the step; tells whether the process got that far. */
  async function killAt(step: number, { isSent, kid }: { readonly isSent: boolean; readonly kid: string[] }) {
    let passed = 0;
    const proxy = await startFaultyProxy(testDatabase.address, {
      passes() {
        if (++passed !== step) return passed < step;
        child.kill("SIGKILL");
        return isSent;
      },
    });
    const script = join(import.meta.dir, "change_signing_keys.ts");
    const child = Bun.spawn([process.execPath, script, JSON.stringify(proxy.address), ...kid], {
      stderr: "inherit",
    });
    await child.exited;
    await until(() => proxy.stats().open === 0);
    await proxy.close();
    return child.signalCode === "SIGKILL";
  }

  for (const what of ["rotation", "retirement of the signing key"] as const) {
    for (const isSent of [true, false]) {
      test(`leaves a set that signs and verifies: ${what}, ${isSent ? "after" : "before"} the statement is sent`, async () => {
        let step = 1;
        for (; ; step++) {
          const kid = what === "rotation" ? [] : [await kidOf("signing")];
          const isKilled = await killAt(step, { isSent, kid });
          await untilEnded();
          await expectWorkingKeys();
          if (!isKilled) break;
        }
        expect(step).toBeGreaterThan(3);
      });
    }
  }

  /** Waits until the server has ended the statements of the killed process. */
  async function untilEnded(): Promise<void> {
    await until(async () => {
      const rows = await testDatabase.database.query(
        (sql) => sql`
          select l.pid from pg_locks l
           where l.database = (select oid from pg_database where datname = current_database())
             and l.relation = 'signing_keys'::regclass and l.pid <> pg_backend_pid()`,
      );
      return rows.length === 0;
    });
  }
});
