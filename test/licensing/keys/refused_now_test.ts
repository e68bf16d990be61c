/** Which keys are refused now and why: too many requests in the last hour, and the list of all refused keys. */
import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../../src/base/calendar.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import type { Sql } from "../../../src/database/mod.ts";
import {
  findMostRefused,
  type KeyFilter,
  listKeys,
  renderObstacles,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../../src/licensing/keys/mod.ts";
import { createRefusalCounts } from "../../../src/licensing/keys/refusal_counts.ts";
import { createLicenseChanges, type Restriction } from "../../../src/licensing/mod.ts";
import { computeFigures, findStoredLists } from "../../../src/usage/figures/mod.ts";
import { createTestClock, type TestClock } from "../../support/clock.ts";
import { ACTOR, BRAND, issue, orThrow } from "../../support/issue.ts";
import { accountOf, uuidOf } from "../../support/keys.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();

const TOO_MANY = { code: "RATE_LIMIT_EXCEEDED", reason: undefined } as const;
const MINUTE_MS = 60_000;
const NEAR_QUOTA = (sql: Sql) => sql`select key_id from figure_near_quota`;

async function explain(id: string, now: Date): Promise<string> {
  const all = await listKeys(database, { now });
  const key = all.find((each) => each.id === id);
  if (key === undefined) throw new Error("There is no such key");
  return renderObstacles(key);
}

function createProcess(clock: TestClock) {
  const process = createRefusalCounts({ database, clock });
  return {
    ...process,
    /** Answers requests of a key, the first ones of them with a refusal. */
    answer(uuid: string, { refused = 0, others = 0 }) {
      for (let n = 0; n < refused; n++) process.note({ uuid }, TOO_MANY, "validate");
      for (let n = 0; n < others; n++) process.note({ uuid }, undefined, "validate");
    },
  };
}

/** Returns the rows in which the processes have counted. */
async function listCounts(): Promise<{ key: string; began: Date }[]> {
  const rows = await database.query<{ key: string; began: Date }>(
    (sql) => sql`select key_id as key, began_at as began from too_many_requests`,
  );
  return [...rows];
}

describe("too many requests", () => {
  test("says how many of the requests of the last hour were refused, in all processes together", async () => {
    const clock = createTestClock("2026-11-27T09:58:00Z", { stands: true });
    const key = await issue(database);
    const [one, other] = [createProcess(clock), createProcess(clock)];
    // Before its first refusal a key is not watched.
    one.answer(uuidOf(key), { others: 500 });
    one.answer(uuidOf(key), { refused: 100, others: 7 });
    other.answer(uuidOf(key), { refused: 3 });
    await Promise.all([one.flush(), other.flush()]);
    expect(await explain(key.id, clock.now())).toBe("too many requests: 103 of 110 in the last hour");
    clock.advance(5 * MINUTE_MS);
    one.answer(uuidOf(key), { refused: 70, others: 30 });
    other.answer(uuidOf(key), { others: 30 });
    await Promise.all([one.flush(), other.flush()]);
    expect(await explain(key.id, clock.now())).toBe("too many requests: 173 of 240 in the last hour");
    // A part counts while the whole of it is in the last hour: the first one began at 9:50.
    clock.setWall("2026-11-27T10:50:00Z");
    expect(await explain(key.id, clock.now())).toBe("too many requests: 173 of 240 in the last hour");
    clock.setWall("2026-11-27T10:50:01Z");
    expect(await explain(key.id, clock.now())).toBe("too many requests: 70 of 130 in the last hour");
    clock.setWall("2026-11-27T11:00:01Z");
    expect(await explain(key.id, clock.now())).toBe("");
  });

  test("is gone after 60 minutes without a refusal, while other requests go on", async () => {
    const clock = createTestClock("2026-11-27T09:00:00Z", { stands: true });
    const key = await issue(database);
    const process = createProcess(clock);
    process.answer(uuidOf(key), { refused: 1 });
    for (let minute = 1; minute <= 60; minute++) {
      clock.advance(MINUTE_MS);
      process.answer(uuidOf(key), { others: 2 });
      await process.flush();
      if (minute === 60) break;
      const text = `too many requests: 1 of ${1 + minute * 2} in the last hour`;
      expect(await explain(key.id, clock.now())).toBe(text);
    }
    clock.advance(1_000);
    expect(await explain(key.id, clock.now())).toBe("");
    // It is not watched any more.
    const before = await listCounts();
    clock.advance(10 * MINUTE_MS);
    process.answer(uuidOf(key), { others: 5 });
    await process.flush();
    expect(await listCounts()).toEqual(before);
  });

  test("watches at most 5,000 keys in a process, and another one after one of them is forgotten", async () => {
    const clock = createTestClock("2026-11-27T12:00:00Z", { stands: true });
    const [first, second] = [await issue(database), await issue(database)];
    const process = createProcess(clock);
    process.answer(uuidOf(first), { refused: 1 });
    for (let n = 0; n < 4_999; n++) process.answer(crypto.randomUUID(), { refused: 1 });
    process.answer(uuidOf(first), { others: 1 });
    process.answer(uuidOf(second), { refused: 1, others: 1 });
    await process.flush();
    expect(await explain(first.id, clock.now())).toBe("too many requests: 1 of 2 in the last hour");
    expect(await explain(second.id, clock.now())).toBe("");
    clock.advance(60 * MINUTE_MS);
    await process.flush();
    process.answer(uuidOf(second), { refused: 1, others: 1 });
    await process.flush();
    expect(await explain(second.id, clock.now())).toBe("too many requests: 1 of 2 in the last hour");
  });

  test("deletes counts after 25 hours, with the next ones", async () => {
    const clock = createTestClock("2026-11-27T20:00:00Z", { stands: true });
    const key = await issue(database);
    const process = createProcess(clock);
    const countOfKey = async () => (await listCounts()).filter((row) => row.key === uuidOf(key)).length;
    for (const [minutes, counts] of [
      [0, 1],
      [25 * 60, 2],
      [10, 2],
    ] as const) {
      clock.advance(minutes * MINUTE_MS);
      process.answer(uuidOf(key), { refused: 1 });
      await process.flush();
      expect(await countOfKey()).toBe(counts);
    }
  });

  test("names at most three keys with at least a tenth of the refusals of a time, the most refused first", async () => {
    const clock = createTestClock("2026-12-05T20:50:00Z", { stands: true });
    const now = clock.now();
    const keys = await Promise.all([1, 2, 3, 4, 5].map(() => issue(database)));
    const [one, two, three, four, five] = keys.map(uuidOf) as [string, string, string, string, string];
    const process = createProcess(clock);
    process.answer(one, { refused: 9, others: 50 });
    process.answer(two, { refused: 10 });
    process.answer(three, { refused: 11 });
    process.answer(four, { refused: 12 });
    await process.flush();
    clock.advance(10 * MINUTE_MS);
    process.answer(four, { others: 50 });
    process.answer(five, { refused: 30 });
    await process.flush();
    const [from, middle, to] = ["20:00", "21:00", "22:00"].map((time) => new Date(`2026-12-05T${time}Z`)) as [
      Date,
      Date,
      Date,
    ];
    const times = [
      { from, to: middle, count: 42 },
      { from, to: middle, count: 120 },
      { from: middle, to, count: 30 },
      { from, to: middle, count: 1_000 },
      { from, to, count: 200 },
    ];
    const find = async (restriction?: Restriction) =>
      (await findMostRefused(database, times, { now, restriction })).map((ofTime) =>
        ofTime.map(({ key, refused }) => `${keys.findIndex(({ id }) => id === key.id) + 1}: ${refused}`),
      );
    expect(await find()).toEqual([["4: 12", "3: 11", "2: 10"], ["4: 12"], ["5: 30"], [], ["5: 30"]]);
    expect(await find({ tiers: ["enterprise"] })).toEqual([[], [], [], [], []]);
    expect(await findMostRefused(database, [], { now })).toEqual([]);
  });
});

describe("the list of keys that are refused now", () => {
  test("has every key that looks alive and is refused, and not the revoked ones", async () => {
    const clock = createTestClock(new Date(Date.now() + 40 * DAY_MS).toISOString(), { stands: true });
    const now = clock.now();
    const by = { actor: ACTOR, now };
    const anHourAgo = new Date(now.getTime() - 60 * MINUTE_MS);
    const changes = createLicenseChanges(database);
    const kinds = [
      "works",
      "suspended",
      "expired",
      "used-up",
      "too-many",
      "revoked",
      "rotated",
      "both",
    ] as const;
    const keys = new Map<string, Awaited<ReturnType<typeof issue>>>();
    for (let round = 0; round < 4; round++)
      for (const kind of kinds)
        for (const tier of ["free", "enterprise"] as const)
          keys.set(
            `${kind}-${round}-${tier}@example.org`,
            await issue(database, {
              email: `${kind}-${round}-${tier}@example.org`,
              tier,
              mode: round % 2 === 0 ? "live" : "test",
              now,
              expiresAt: new Date(now.getTime() + 10 * DAY_MS),
              ...((kind === "used-up" || kind === "both") && { monthlyLimit: 0 }),
            }),
          );
    const process = createProcess(clock);
    for (const [email, key] of keys) {
      const uuid = uuidOf(key);
      if (email.startsWith("suspended")) orThrow(await suspendKey(changes, uuid, by));
      if (email.startsWith("revoked")) orThrow(await revokeKey(changes, { uuid }, by));
      if (email.startsWith("rotated"))
        orThrow(
          await rotateKey(
            changes,
            { uuid, mode: /-[02]-/.test(email) ? "live" : "test", overlapMs: MINUTE_MS },
            { brand: BRAND, ...by, now: anHourAgo },
          ),
        );
      if (email.startsWith("expired"))
        await database.query(
          (sql) =>
            sql`update licenses set expires_at = ${now}::timestamptz where id = ${key.licenseUuid}::uuid`,
        );
      if (email.startsWith("too-many") || email.startsWith("both")) process.answer(uuid, { refused: 1 });
    }
    await process.flush();
    await computeFigures(database, { clock });
    const stored = await findStoredLists(database, { refused_now: "true" }, now);
    if (stored === undefined || isRefusal(stored)) throw new Error("There is no list");
    let found = 0;
    for (const condition of [
      {},
      ...[{ state: "active" }, { state: "suspended" }, { state: "expired" }, { state: "revoked" }],
      ...[{ tier: "free" }, { mode: "test" }, { tier: "enterprise", state: "active", mode: "live" }],
      { expiringWithinDays: 30 },
      ...[{ newestFirst: true }, { newestFirst: true, state: "active" }],
      ...[1, 1_000, 1_000_000].flatMap((keys) => [
        { stored: [{ keys, select: NEAR_QUOTA }] },
        { stored: [{ keys, select: NEAR_QUOTA }], tier: "free", mode: "live" },
      ]),
      ...[...keys.values()].slice(0, 16).map((key) => ({ accountUuid: accountOf(key) })),
    ] as readonly KeyFilter[]) {
      const all = await listKeys(database, { now, filter: condition });
      const expected = all.filter(({ obstacles, state }) => obstacles.length > 0 && state !== "revoked");
      for (const limit of [3, undefined]) {
        const pages: string[] = [];
        for (let afterUuid: string | undefined; ; ) {
          const page = await listKeys(database, {
            now,
            filter: { ...condition, refused: stored.filter.refused, afterUuid, limit },
          });
          pages.push(...page.map(({ id }) => id));
          const [last] = page.slice(-1);
          if (last === undefined || limit === undefined) break;
          afterUuid = uuidOf(last);
        }
        expect({ condition, limit, pages }).toEqual({
          condition,
          limit,
          pages: expected.map(({ id }) => id),
        });
      }
      found += expected.length;
    }
    expect(found).toBeGreaterThan(150);
    const texts = new Set((await listKeys(database, { now })).map(renderObstacles));
    for (const text of ["suspended", "expired", "quota used up", "revoked", "rotated"])
      expect(texts).toContain(text);
    expect(texts).toContain("quota used up; too many requests: 1 refused in the last hour");
  });
});
