import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { createKeyCache, type KeyCache, type LookUp } from "../../../src/licensing/keys/key_cache.ts";
import { parseKeyHash } from "../../../src/licensing/keys/key_hash.ts";
import type { KeyRecord } from "../../../src/licensing/keys/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { keyRecord } from "../../support/records.ts";

const clock = createTestClock();

function hashOf(name: string): string {
  return hash("sha256", name, "hex");
}

function get(cache: KeyCache, digits: string): KeyRecord | null | undefined {
  return cache.get(parseKeyHash(digits));
}

const A = hashOf("a");
const B = hashOf("b");
const C = hashOf("c");

function keyOf(digits: string, fields: Partial<KeyRecord> = {}): [digits: string, record: KeyRecord] {
  return [digits, keyRecord({ ...parseKeyHash(digits), ...fields })];
}

function fillNow(cache: KeyCache, key: [digits: string, record: KeyRecord]): void {
  const lookUp = cache.beginLookUp();
  lookUp.fill([key[0]], new Map([key]));
  lookUp.end();
}

describe("createKeyCache()", () => {
  test("fill() caches the found keys, and caches the other hashes as unknown", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    const [, record] = keyOf(A);
    const lookUp = cache.beginLookUp();
    lookUp.fill([A, B], new Map([[A, record]]));
    lookUp.end();
    expect(get(cache, A)).toBe(record);
    expect(get(cache, B)).toBeNull();
    expect(get(cache, C)).toBeUndefined();
  });

  test("fill() caches no key of a license that changed during the look-up", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    const lookUp = cache.beginLookUp();
    cache.forgetLicense("changed");
    const found = new Map([keyOf(A, { licenseUuid: "changed" }), keyOf(B, { licenseUuid: "other" })]);
    lookUp.fill([A, B], found);
    lookUp.end();
    expect(get(cache, A)).toBeUndefined();
    expect(get(cache, B)).toBeDefined();
  });

  test("fill() caches nothing when the whole cache was cleared during the look-up", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    const lookUp = cache.beginLookUp();
    cache.forgetAll();
    lookUp.fill([A, B], new Map([keyOf(A)]));
    lookUp.end();
    expect(get(cache, A)).toBeUndefined();
    expect(get(cache, B)).toBeUndefined();
  });

  test("fill() uses the newest count that arrived during the look-up, in any order", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    const lookUp = cache.beginLookUp();
    for (const used of [8, 10, 9]) cache.updateUsedCount("license", { monthIndex: 5, used });
    cache.updateUsedCount("license", { monthIndex: 4, used: 99 });
    lookUp.fill([A], new Map([keyOf(A, { usage: { monthIndex: 5, used: 7 } })]));
    lookUp.end();
    expect(get(cache, A)?.usage).toEqual({ monthIndex: 5, used: 10 });
  });

  test("updateUsedCount() updates every key of the license, and never lowers a count", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    fillNow(cache, keyOf(A));
    fillNow(cache, keyOf(B));
    cache.updateUsedCount("license", { monthIndex: 5, used: 3 });
    cache.updateUsedCount("license", { monthIndex: 5, used: 2 });
    cache.updateUsedCount("license", { monthIndex: 4, used: 9 });
    for (const known of [A, B]) expect(get(cache, known)?.usage).toEqual({ monthIndex: 5, used: 3 });
  });

  test("get() drops an unknown key within a second after its look-up began", async () => {
    const moved = createTestClock();
    const cache = createKeyCache({ clock: moved, maxKeys: 1_000 });
    const lookUp = cache.beginLookUp();
    moved.advance(600);
    lookUp.fill([A], new Map());
    lookUp.end();
    expect(get(cache, A)).toBeNull();
    moved.advance(400);
    // The cache reads its clock once a millisecond.
    await Bun.sleep(5);
    expect(get(cache, A)).toBeUndefined();
  });

  test("get() drops a key within ten minutes, however often it is used", async () => {
    const moved = createTestClock();
    const cache = createKeyCache({ clock: moved, maxKeys: 1_000 });
    fillNow(cache, keyOf(A));
    for (let seconds = 5; seconds < 590; seconds += 5) {
      moved.advance(5_000);
      expect(get(cache, A)).toBeDefined();
    }
    moved.advance(15_000);
    // The cache reads its clock once a millisecond.
    await Bun.sleep(5);
    expect(get(cache, A)).toBeUndefined();
  });

  test("get() keeps the last used key when there is no room for all", () => {
    const moved = createTestClock();
    const cache = createKeyCache({ clock: moved, maxKeys: 2 });
    fillNow(cache, keyOf(A));
    fillNow(cache, keyOf(B));
    moved.advance(11_000);
    get(cache, A);
    fillNow(cache, keyOf(C));
    expect([get(cache, A) !== undefined, get(cache, B) !== undefined]).toEqual([true, false]);
  });

  test("get() finds no key whose hash differs in one digit", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    fillNow(cache, keyOf(A));
    for (let at = 0; at < A.length; at++) {
      for (const digit of "0123456789abcdef".replace(A[at] ?? "", "")) {
        expect(get(cache, A.slice(0, at) + digit + A.slice(at + 1))).toBeUndefined();
      }
    }
    expect(get(cache, A)).toBeDefined();
  });

  test("get() does not report a key as unknown because an unknown hash begins with the same digits", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    const lookUp = cache.beginLookUp();
    lookUp.fill([B], new Map());
    lookUp.end();
    expect([get(cache, B), get(cache, B.slice(0, 12) + A.slice(12))]).toEqual([null, undefined]);
  });

  test("get() finds the newer of two keys whose hashes begin with the same digits", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000 });
    const twin = A.slice(0, 12) + B.slice(12);
    const [, second] = keyOf(twin, { licenseUuid: "second" });
    fillNow(cache, keyOf(A, { licenseUuid: "first" }));
    fillNow(cache, [twin, second]);
    expect([get(cache, A), get(cache, twin)]).toEqual([undefined, second]);

    cache.forgetLicense("first");
    expect(get(cache, twin)).toBe(second);
    cache.forgetLicense("second");
    expect(get(cache, twin)).toBeUndefined();
    expect(cache.stats()).toMatchObject({ keys: 0, licenses: 0 });
  });

  test("createKeyCache() limits the number of known and of unknown keys", () => {
    const cache = createKeyCache({ clock, maxKeys: 10 });
    for (let i = 0; i < 30; i++) fillNow(cache, keyOf(hashOf(`known ${i}`), { licenseUuid: `license ${i}` }));
    const lookUp = cache.beginLookUp();
    lookUp.fill(
      Array.from({ length: 30_000 }, (_, i) => hashOf(`unknown ${i}`)),
      new Map(),
    );
    lookUp.end();
    expect(cache.stats()).toMatchObject({ keys: 10, licenses: 10, unknownKeys: 10_000 });
  });

  test("createKeyCache() never returns older data than a naive model, in 100,000 random operations", () => {
    const random = createRandom(20261120);
    const cache = createKeyCache({ clock, maxKeys: 25 });
    const model = new NaiveKeys();
    const open: { lookUp: LookUp; key: string; found: ReturnType<NaiveKeys["read"]> }[] = [];
    const close = (index: number) => {
      const [one] = open.splice(index, 1);
      if (one === undefined) return;
      one.lookUp.fill([hashOf(one.key)], new Map([keyOf(hashOf(one.key), one.found)]));
      one.lookUp.end();
    };
    for (let step = 0; step < 100_000; step++) {
      const license = `license ${random(20)}`;
      const key = `${license}, key ${random(3)}`;
      switch (random(6)) {
        case 0:
          open.push({ lookUp: cache.beginLookUp(), key, found: model.read(key) });
          break;
        case 1:
          close(random(open.length));
          break;
        case 2:
          model.change(license);
          if (random(2) === 0) cache.forgetLicense(license);
          else if (random(20) === 0) cache.forgetAll();
          else cache.forgetLicense(license);
          break;
        case 3:
          cache.updateUsedCount(license, { monthIndex: 0, used: model.use(license, random(5)) });
          break;
        default: {
          const record = get(cache, hashOf(key));
          if (record == null) break;
          expect(record).toMatchObject({ ...parseKeyHash(hashOf(key)), ...model.read(key) });
        }
      }
      if (open.length > 5) close(0);
    }
    expect(cache.stats().hits).toBeGreaterThan(5_000);
    expect(cache.stats().licenses).toBeLessThanOrEqual(cache.stats().keys);
    for (let i = 0; i < 20; i++) cache.forgetLicense(`license ${i}`);
    expect(cache.stats()).toMatchObject({ keys: 0, licenses: 0 });
  });
});

/** Stands for the database: each license has a name that changes and a count that grows. */
class NaiveKeys {
  readonly #licenses = new Map<string, { name: string; used: number }>();

  #of(license: string) {
    const known = this.#licenses.get(license) ?? { name: "1", used: 0 };
    this.#licenses.set(license, known);
    return known;
  }

  change(license: string): void {
    const known = this.#of(license);
    known.name = String(Number(known.name) + 1);
  }

  use(license: string, units: number): number {
    this.#of(license).used += units;
    return this.#of(license).used;
  }

  read(key: string) {
    const licenseUuid = key.split(",")[0] ?? "";
    const { name, used } = this.#of(licenseUuid);
    return { licenseUuid, accountUuid: name, usage: { monthIndex: 0, used } };
  }
}

/** Returns whole numbers below `bound`, the same in every run (a linear congruential generator). */
function createRandom(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return bound === 0 ? 0 : (state >>> 8) % bound;
  };
}

describe("createKeyCache() with features and values", () => {
  test("get() does not return a key whose features have changed by the clock", () => {
    const moved = createTestClock("2026-11-29T12:00:00Z", { stands: true });
    const cache = createKeyCache({ clock: moved, maxKeys: 1_000 });
    fillNow(cache, keyOf(A, { featuresChangeAtMs: moved.nowMs() + 1_000 }));
    moved.advance(999);
    expect(get(cache, A)).toBeDefined();
    moved.advance(1);
    expect(get(cache, A)).toBeUndefined();
  });

  test("fill() keeps fewer keys if their values are long", () => {
    const plain = createKeyCache({ clock, maxKeys: 10 });
    for (let number = 0; number < 10; number++)
      fillNow(plain, keyOf(hashOf(`${number}`), { licenseUuid: `${number}`, entitlements: "x".repeat(128) }));
    expect(plain.stats().keys).toBe(10);
    const small = createKeyCache({ clock, maxKeys: 17 });
    for (const name of ["a", "b", "c", "d", "e"])
      fillNow(small, keyOf(hashOf(name), { licenseUuid: name, entitlements: "x".repeat(4_096) }));
    expect(small.stats().keys).toBe(3);
  });

  test("fill() keeps the values of a license once for all its keys", () => {
    const cache = createKeyCache({ clock, maxKeys: 1_000_000 });
    const megabytes = () => {
      Bun.gc(true);
      const { heapSize, extraMemorySize } = heapStats();
      return (heapSize + extraMemorySize) / 1e6;
    };
    const before = megabytes();
    for (let number = 0; number < 200; number++)
      // Each text is a new one, as those of the driver are.
      fillNow(
        cache,
        keyOf(hashOf(`${number}`), { entitlements: Buffer.alloc(200_000, "x").toString("latin1") }),
      );
    expect(cache.stats().keys).toBe(200);
    expect(megabytes() - before).toBeLessThan(20);
  });
});
