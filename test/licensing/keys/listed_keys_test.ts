/**
 * Tests that `listed_keys` agrees with keys and licenses after every change. A page of the list must have the keys that
 * a naive reference finds, and a rare filter must not read all keys.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { monthOf, NEVER_EXPIRES } from "../../../src/base/calendar.ts";
import { parseId, toId } from "../../../src/base/ids.ts";
import { type Fragment, openSession, type Sql } from "../../../src/database/mod.ts";
import type { KeyOrder, StoredOrder } from "../../../src/licensing/keys/key_filter.ts";
import {
  countListed,
  generateApiKey,
  type IssuedKey,
  importKeys,
  type KeyFilter,
  type KeySummary,
  listKeys,
  listUuids,
  positionOf,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../../src/licensing/keys/mod.ts";
import {
  allowsKey,
  changeLicense,
  createLicenseChanges,
  type Restriction,
  UNRESTRICTED,
} from "../../../src/licensing/mod.ts";
import { importedUsageCte } from "../../../src/usage/mod.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { ACTOR, BRAND, issue, NOW } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import { countRowsRead } from "../../support/rows_read.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const BY = { actor: ACTOR, now: NOW };
const DAY_MS = 86_400_000;
const inDays = (days: number) => new Date(NOW.getTime() + days * DAY_MS);

describe("listed_keys", () => {
  const server = useTestDatabase();

  /** Counts the rows that differ from what keys and licenses say. */
  async function countDifferences(): Promise<number> {
    const [row] = await server.database.query<{ differences: number }>(
      (sql) => sql`
        with listed as (select key_id, account_id, tier, mode, state, expires_at from listed_keys),
        actual as (
          select k.id, l.account_id, l.tier, k.mode, k.state, least(l.expires_at, k.own_expires_at)
            from keys k join licenses l on l.id = k.license_id
        )
        select (select count(*) from (table listed except table actual) as wrong)
             + (select count(*) from (table actual except table listed) as missing) as differences`,
    );
    return row?.differences ?? Number.NaN;
  }

  const change = (key: IssuedKey, to: Parameters<typeof changeLicense>[2]["change"]) =>
    changeLicense(createLicenseChanges(server.database), { keyUuid: uuidOf(key) }, { change: to, ...BY });
  const rotate = (key: IssuedKey) =>
    rotateKey(
      createLicenseChanges(server.database),
      { uuid: uuidOf(key), mode: "live", overlapMs: DAY_MS },
      { brand: BRAND, ...BY },
    );

  test("listed_keys follows every change of a key and its license", async () => {
    const key = await issue(server.database);
    const other = await issue(server.database, { tier: "free", mode: "test", expiresAt: inDays(3) });
    expect(await countDifferences()).toBe(0);
    const changes = [
      () => suspendKey(createLicenseChanges(server.database), uuidOf(key), BY),
      () => resumeKey(createLicenseChanges(server.database), uuidOf(key), BY),
      () => change(key, { tier: "commercial", expiresAt: inDays(90) }),
      () => rotate(key),
      () => change(key, { expiresAt: inDays(1) }),
      () => revokeKey(createLicenseChanges(server.database), { uuid: uuidOf(other) }, BY),
      // By hand: a license gets another account, a key another license.
      () =>
        server.database.query(
          (sql) => sql`
            update licenses set account_id = (select account_id from licenses where id = ${key.licenseUuid}::uuid)
             where id = ${other.licenseUuid}::uuid`,
        ),
      () =>
        server.database.query(
          (sql) =>
            sql`update keys set license_id = ${key.licenseUuid}::uuid where id = ${uuidOf(other)}::uuid`,
        ),
    ];
    for (const make of changes) {
      await make();
      expect(await countDifferences()).toBe(0);
    }
  });

  test("listed_keys has imported keys, and nothing of an import that failed", async () => {
    const { hash, hint } = generateApiKey(BRAND, "live");
    const known = { hash, hint, mode: "live", email: "im@example.org", tier: "free" } as const;
    const line = { key: { ...known, organization: "", expires_at: NEVER_EXPIRES, used: 0 }, line: 1 };
    const session = openSession(server.address, { statementTimeoutMs: 10_000 });
    try {
      for (const outcome of [{ imported: 1 }, { code: "INVALID_REQUEST" }]) {
        const usageCte = (sql: Parameters<typeof importedUsageCte>[0]) =>
          importedUsageCte(sql, monthOf(NOW.getTime()));
        expect(await importKeys(session, [line], { ...BY, usageCte })).toMatchObject(outcome);
        expect(await countDifferences()).toBe(0);
      }
    } finally {
      await session.close();
    }
  });

  const byHand: [what: string, statement: (sql: Sql, key: IssuedKey) => Fragment][] = [
    [
      "the key's own expiry",
      (sql, key) =>
        sql`update keys set own_expires_at = ${inDays(7)}::timestamptz where id = ${uuidOf(key)}::uuid`,
    ],
    [
      "a second key of the license",
      (sql, key) => sql`
        insert into keys (id, license_id, hash, hint, mode, created_at)
        select gen_random_uuid(), license_id, sha256(hash), hint, mode, created_at
          from keys where id = ${uuidOf(key)}::uuid`,
    ],
  ];
  for (const [what, statement] of byHand) {
    test(`listed_keys agrees if the license changes before ${what} is committed`, async () => {
      const key = await issue(server.database);
      let changed: Promise<unknown> = Promise.resolve();
      await inTransaction(server.address, async (sql) => {
        await sql`${statement(sql, key)}`;
        let isDone = false;
        changed = change(key, { tier: "commercial", expiresAt: inDays(30) }).then(() => {
          isDone = true;
        });
        const isWaiting = async () => isDone || (await countWaiting(server.database)) === 1;
        await until(isWaiting, { what: "the change of the license" });
      });
      await changed;
      expect(await countDifferences()).toBe(0);
    });
  }
});

/** Enough keys that a list which reads all of them is noticed. */
const KEYS = 4_000;

describe("listKeys() with a filter", () => {
  const server = useTestDatabase();
  setDefaultTimeout(60_000);
  let all: KeySummary[];
  beforeAll(async () => {
    // Many tiers, modes and expiries; few suspended keys, no enterprise key for tests, and one large account.
    await server.database.query(
      (sql) => sql`
        with numbered as (
          select n, case when n % 3 = 0 then 0 else n / 6 end as a,
                 (array['free', 'free', 'free', 'research', 'research', 'commercial', 'enterprise'])[1 + n % 7] as tier
            from generate_series(1, ${KEYS}::integer) as n
        ),
        account as (
          insert into accounts (id, email, name, created_at)
          select md5('account ' || a)::uuid, a || '@example.org', 'Account ' || a, ${NOW}::timestamptz
            from (select distinct a from numbered) account
        ),
        license as (
          insert into licenses (id, account_id, tier, expires_at, created_at, external_id)
          select md5('license ' || n)::uuid, md5('account ' || a)::uuid, tier,
                 case when n % 11 = 0 then ${NEVER_EXPIRES}::timestamptz
                   else ${NOW}::timestamptz + interval '1 day' * (n % 700 - 200) end,
                 ${NOW}::timestamptz, case when n % 100 = 0 then 'order-' || n end
            from numbered
        )
        insert into keys (id, license_id, hash, hint, mode, state, created_at, revoked_at)
        select md5('key ' || n)::uuid, md5('license ' || n)::uuid, sha256(n::text::bytea),
               'svc_live_…' || right(md5(n::text), 4),
               case when n % 5 = 0 and tier <> 'enterprise' then 'test' else 'live' end,
               case when n % 1000 = 7 then 'suspended' when n % 13 = 0 then 'revoked' else 'active' end,
               ${NOW}::timestamptz, case when n % 1000 <> 7 and n % 13 = 0 then ${NOW}::timestamptz end
          from numbered`,
      { deadlineMs: 30_000 },
    );
    await server.database.query((sql) => sql`vacuum analyze`);
    all = await listKeys(server.database, { now: NOW });
  });

  const largest = async () => {
    const [row] = await server.database.query<{ uuid: string }>(
      (sql) => sql`select md5('account 0')::uuid as uuid`,
    );
    return row?.uuid ?? "";
  };

  /** The reference: reads the conditions as the manual has them. */
  function meets(key: KeySummary, filter: KeyFilter): boolean {
    const { tier, state, mode, expiringWithinDays: days, restriction = UNRESTRICTED } = filter;
    return (
      allowsKey(restriction, key) &&
      (tier === undefined || key.tier === tier) &&
      (state === undefined || key.state === state) &&
      (mode === undefined || key.mode === mode) &&
      (days === undefined || (key.expiresAt > NOW && key.licenseExpiresAt <= inDays(days)))
    );
  }

  const options = {
    tier: [undefined, "free", "enterprise"],
    state: [undefined, "active", "expired", "suspended", "revoked"],
    mode: [undefined, "live", "test"],
    expiringWithinDays: [undefined, 0, 30, 500],
  } as const;
  const filters: KeyFilter[] = options.tier.flatMap((tier) =>
    options.state.flatMap((state) =>
      options.mode.flatMap((mode) =>
        options.expiringWithinDays.map((expiringWithinDays) => ({ tier, state, mode, expiringWithinDays })),
      ),
    ),
  );
  const restrictions: Restriction[] = [
    { tiers: ["free", "enterprise"] },
    { mode: "test" },
    { tiers: ["free"], mode: "live" },
  ];
  const restricted = filters.map((filter, index) => ({ ...filter, restriction: restrictions[index % 3] }));

  test("listKeys() returns the same pages as a naive reference for every combination", async () => {
    const [row] = await server.database.query((sql) => sql`select count(*)::integer as keys from keys`);
    expect(row).toEqual({ keys: all.length });
    const account = await largest();
    for (const [index, filter] of [...filters, ...restricted].entries()) {
      // Every second combination is one of an account, with a third of the keys.
      const accountUuid = index % 2 === 0 ? undefined : account;
      const expected = all
        .filter((key) => meets(key, filter))
        .filter((key) => accountUuid === undefined || key.userId === `usr_${accountUuid.replaceAll("-", "")}`)
        .map(({ id }) => id);
      const list = (part: KeyFilter) =>
        listKeys(server.database, { now: NOW, filter: { ...filter, accountUuid, ...part } });
      const ids = (keys: readonly KeySummary[]) => keys.map(({ id }) => id);
      // A whole list takes long and is selected in one way, whatever the filter.
      if (index % 10 < 2) expect(ids(await list({})), JSON.stringify(filter)).toEqual(expected);
      if (index % 10 < 2) {
        const listAny = (most: number) =>
          listUuids(server.database, { now: NOW, filter: { ...filter, accountUuid }, most });
        const every = (await listAny(KEYS)).map((uuid) => toId("key", uuid));
        expect(every.toSorted(), JSON.stringify(filter)).toEqual(expected.toSorted());
        expect(await listAny(7)).toHaveLength(Math.min(7, expected.length));
      }
      for (const from of [0, Math.floor(expected.length / 2), expected.length - 3]) {
        const afterUuid = from <= 0 ? undefined : parseId("key", expected[from - 1] ?? "");
        const page = expected.slice(Math.max(0, from), Math.max(0, from) + 7);
        expect(ids(await list({ afterUuid, limit: 7 })), JSON.stringify(filter)).toEqual(page);
      }
      const middle = Math.floor(expected.length / 2);
      const older = { newestFirst: true, afterUuid: parseId("key", expected[middle] ?? ""), limit: 7 };
      const before = expected.slice(Math.max(0, middle - 7), middle).reverse();
      expect(ids(await list(older)), JSON.stringify(filter)).toEqual(before);
    }
  });

  test("listKeys() returns the keys that meet the search, the external id and all other conditions", async () => {
    const searched = { accountUuids: [await largest()], licenseUuids: [], isTooWide: false, text: "" };
    const find = async (filter: KeyFilter) =>
      (await listKeys(server.database, { now: NOW, filter: { limit: 5, ...filter } })).map(
        ({ externalId }) => externalId,
      );
    // Every third key belongs to the largest account.
    expect(await find({ externalId: "order-600" })).toEqual(["order-600"]);
    expect(await find({ externalId: "order-600", search: searched })).toEqual(["order-600"]);
    expect(await find({ externalId: "order-700" })).toEqual(["order-700"]);
    expect(await find({ externalId: "order-700", search: searched })).toEqual([]);
    expect(await find({ externalId: "order-600", search: searched, tier: "enterprise" })).toEqual([]);
    expect(await find({ externalId: "order-600", search: searched, limit: undefined })).toEqual([
      "order-600",
    ]);
    const one = all.find(({ externalId }) => externalId === "order-700");
    const byEnd = { accountUuids: [], licenseUuids: [], isTooWide: false, text: one?.hint.slice(-4) ?? "" };
    expect(await find({ externalId: "order-700", search: byEnd })).toEqual(["order-700"]);
    expect(await find({ externalId: "order-700", search: byEnd, accountUuid: await largest() })).toEqual([]);
  });

  /** A stored order with equal values, which a third of the keys have. */
  const STORED: StoredOrder = {
    select: (sql) => sql`
      select id as key_id, (ascii(right(hint, 1)) / 4)::bigint as place from keys where right(hint, 2) < '55'`,
  };
  const orders: [name: string, by: KeyOrder | undefined, rankOf: (key: KeySummary) => number | undefined][] =
    [
      ["creation", undefined, () => 0],
      ["expiry", "expiry", ({ expiresAt }) => expiresAt.getTime()],
      [
        "a stored value",
        STORED,
        ({ hint }) => (hint.slice(-2) < "55" ? Math.floor(hint.charCodeAt(13) / 4) : undefined),
      ],
    ];
  for (const [name, by, rankOf] of orders) {
    test(`listKeys() and countListed() by ${name} agree with a naive reference, from both ends`, async () => {
      const account = await largest();
      const list = {
        keys: 800,
        select: (sql: Sql) => sql`select id as key_id from keys where right(hint, 1) in ('1', '5', 'a')`,
      };
      const isOnList = ({ hint }: KeySummary) => /[15a]$/.test(hint);
      for (const [index, filter] of [...filters, ...restricted].entries()) {
        if (index % 5 !== 0) continue;
        const isStored = index % 2 === 0;
        const given = {
          ...filter,
          by,
          ...(index % 3 === 0 && { accountUuid: account }),
          ...(isStored && { stored: [{ ...list, keys: index % 4 === 0 ? 800 : 30_000 }] }),
        };
        const expected = all
          .filter((key) => meets(key, filter) && rankOf(key) !== undefined)
          .filter((key) => index % 3 !== 0 || key.userId === `usr_${account.replaceAll("-", "")}`)
          .filter((key) => !isStored || isOnList(key))
          .toSorted((a, b) => (rankOf(a) ?? 0) - (rankOf(b) ?? 0) || (a.id < b.id ? -1 : 1))
          .map(({ id }) => id);
        const what = JSON.stringify(given);
        for (const newestFirst of [false, true]) {
          const order = newestFirst ? expected.toReversed() : expected;
          let afterUuid: string | undefined;
          for (let at = 0; at < Math.min(order.length, 120); ) {
            const part = { ...given, newestFirst, afterUuid };
            const page = await listKeys(server.database, { now: NOW, filter: { ...part, limit: 40 } });
            expect(
              page.map(({ id }) => id),
              what,
            ).toEqual(order.slice(at, at + 40));
            at += page.length;
            const last = page.at(-1);
            if (last === undefined) break;
            afterUuid = positionOf(last, parseId("key", last.id) ?? "");
            const backwards = { ...given, newestFirst: !newestFirst, afterUuid, limit: 40 };
            const before = await listKeys(server.database, { now: NOW, filter: backwards });
            expect(
              before.map(({ id }) => id),
              what,
            ).toEqual(order.slice(Math.max(0, at - 41), at - 1).toReversed());
            const uncounted = isStored && index % 4 !== 0 && index % 3 !== 0 && typeof by !== "object";
            if (!uncounted)
              expect(await countListed(server.database, { now: NOW, filter: backwards }), what).toBe(at - 1);
          }
          // A position without its value is where the key stands now.
          if (order.length > 2) {
            const third = { ...given, newestFirst, afterUuid: parseId("key", order[1] ?? ""), limit: 1 };
            const [found] = await listKeys(server.database, { now: NOW, filter: third });
            expect(found?.id, what).toBe(order[2] ?? "");
          }
        }
        if (!isStored)
          expect(await countListed(server.database, { now: NOW, filter: given })).toBe(expected.length);
      }
    });
  }

  test("listKeys() by expiry goes on where it was, although the key of the position was renewed meanwhile", async () => {
    const list = (part: KeyFilter) =>
      listKeys(server.database, {
        now: NOW,
        filter: { by: "expiry", tier: "commercial", limit: 5, ...part },
      });
    const first = await list({});
    const [last] = first.slice(-1);
    const next = await list({ afterUuid: last && positionOf(last, parseId("key", last.id) ?? "") });
    await server.database.query(
      (sql) => sql`
        update licenses set expires_at = ${inDays(900)}::timestamptz
         where id = (select license_id from keys where id = ${parseId("key", last?.id ?? "") ?? null}::uuid)`,
    );
    const again = await list({ afterUuid: last && positionOf(last, parseId("key", last.id) ?? "") });
    expect(again.map(({ id }) => id)).toEqual(next.map(({ id }) => id));
    await server.database.query(
      (sql) => sql`
        update licenses set expires_at = ${last?.expiresAt ?? null}::timestamptz
         where id = (select license_id from keys where id = ${parseId("key", last?.id ?? "") ?? null}::uuid)`,
    );
  });

  const last = () => parseId("key", all.at(-100)?.id ?? "");
  const rare: [name: string, filter: () => KeyFilter | Promise<KeyFilter>][] = [
    ["a rare state", () => ({ state: "suspended" })],
    ["an empty combination", () => ({ tier: "enterprise", mode: "test" })],
    ["a rare combination", () => ({ tier: "enterprise", state: "suspended" })],
    ["a restriction", () => ({ restriction: { tiers: ["enterprise"], mode: "test" } })],
    ["an expiry soon", () => ({ expiringWithinDays: 1, tier: "free" })],
    ["expired keys behind the last of them", () => ({ state: "expired", afterUuid: last() })],
    ["an external id", () => ({ externalId: "order-700" })],
    ["an unknown external id", () => ({ externalId: "order" })],
    ["no filter, at the end", () => ({ afterUuid: last() })],
    ["a page of a long list, at the end", () => ({ afterUuid: last(), limit: 1_000 })],
    ["no filter, the newest first", () => ({ newestFirst: true })],
    ["a tier, the newest first", () => ({ newestFirst: true, tier: "free" })],
    ["the soonest expiry", () => ({ by: "expiry" })],
    [
      "the latest expiry of a rare combination",
      () => ({ by: "expiry", newestFirst: true, state: "suspended" }),
    ],
  ];
  for (const [name, filter] of rare) {
    test(`listKeys() reads few rows for ${name}`, async () => {
      const given = { limit: 3, ...(await filter()) };
      const read = await countRowsRead(server.database, (database) =>
        listKeys(database, { now: NOW, filter: given }),
      );
      expect(read).toBeLessThan(KEYS / 6);
      const readAny = await countRowsRead(server.database, (database) =>
        listUuids(database, { now: NOW, filter: given, most: 100 }),
      );
      expect(readAny).toBeLessThan(KEYS / 6);
    });
  }

  test("a selection of refused keys reads only as many of the expired ones as it needs", async () => {
    const usedUp = { keys: 0, select: (sql: Sql) => sql`select null::uuid as key_id where false` };
    const expired = all.filter(({ state }) => state === "expired").length;
    const some = { now: NOW, filter: { refused: usedUp }, most: 100 };
    const found = await listUuids(server.database, some);
    expect(new Set(found).size).toBe(100);
    const read = await countRowsRead(server.database, (database) => listUuids(database, some));
    expect(read).toBeLessThan(expired / 2);
  });
});
