import { describe, expect, test } from "bun:test";
import { createKeyCache, type KeyCache, type LookUp } from "../../src/keys/key_cache.ts";
import { createTestClock } from "../support/clock.ts";
import { keyRecord } from "../support/records.ts";

const clock = createTestClock();

function fillNow(cache: KeyCache, hash: string, record = keyRecord()): void {
  const lookUp = cache.beginLookUp();
  lookUp.fill([hash], new Map([[hash, record]]));
  lookUp.end();
}

describe("createKeyCache()", () => {
  test("fill() keeps what was found, and that the rest is unknown", () => {
    const cache = createKeyCache({ clock });
    const record = keyRecord();
    const lookUp = cache.beginLookUp();
    lookUp.fill(["a", "b"], new Map([["a", record]]));
    lookUp.end();
    expect(cache.get("a")).toBe(record);
    expect(cache.get("b")).toBeNull();
    expect(cache.get("c")).toBeUndefined();
  });

  test("fill() keeps nothing of a license that changed while the look-up ran", () => {
    const cache = createKeyCache({ clock });
    const lookUp = cache.beginLookUp();
    cache.forgetLicense("changed");
    const found = new Map([
      ["a", keyRecord({ licenseUuid: "changed" })],
      ["b", keyRecord({ licenseUuid: "other" })],
    ]);
    lookUp.fill(["a", "b"], found);
    lookUp.end();
    expect(cache.get("a")).toBeUndefined();
    expect(cache.get("b")).toBeDefined();
  });

  test("fill() keeps nothing at all when everything was forgotten while the look-up ran", () => {
    const cache = createKeyCache({ clock });
    const lookUp = cache.beginLookUp();
    cache.forgetAll();
    lookUp.fill(["a", "b"], new Map([["a", keyRecord()]]));
    lookUp.end();
    expect(cache.get("a")).toBeUndefined();
    expect(cache.get("b")).toBeUndefined();
  });

  test("fill() takes in the newest count that was noted while the look-up ran, in whatever order", () => {
    const cache = createKeyCache({ clock });
    const lookUp = cache.beginLookUp();
    for (const used of [8, 10, 9]) cache.noteUsage("license", { monthIndex: 5, used });
    cache.noteUsage("license", { monthIndex: 4, used: 99 });
    lookUp.fill(["a"], new Map([["a", keyRecord({ usage: { monthIndex: 5, used: 7 } })]]));
    lookUp.end();
    expect(cache.get("a")?.usage).toEqual({ monthIndex: 5, used: 10 });
  });

  test("noteUsage() reaches every key of the license, and never goes back", () => {
    const cache = createKeyCache({ clock });
    fillNow(cache, "a");
    fillNow(cache, "b");
    cache.noteUsage("license", { monthIndex: 5, used: 3 });
    cache.noteUsage("license", { monthIndex: 5, used: 2 });
    cache.noteUsage("license", { monthIndex: 4, used: 9 });
    for (const hash of ["a", "b"]) expect(cache.get(hash)?.usage).toEqual({ monthIndex: 5, used: 3 });
  });

  test("get() gives up an unknown key within a second of when its look-up began", async () => {
    const moved = createTestClock();
    const cache = createKeyCache({ clock: moved });
    const lookUp = cache.beginLookUp();
    moved.advance(600);
    lookUp.fill(["a"], new Map());
    lookUp.end();
    expect(cache.get("a")).toBeNull();
    moved.advance(400);
    // The cache reads its clock once a millisecond.
    await Bun.sleep(5);
    expect(cache.get("a")).toBeUndefined();
  });

  test("get() gives up a key within ten minutes, however often it is asked for", async () => {
    const moved = createTestClock();
    const cache = createKeyCache({ clock: moved });
    fillNow(cache, "a");
    for (let seconds = 5; seconds < 590; seconds += 5) {
      moved.advance(5_000);
      expect(cache.get("a")).toBeDefined();
    }
    moved.advance(15_000);
    // The cache reads its clock once a millisecond.
    await Bun.sleep(5);
    expect(cache.get("a")).toBeUndefined();
  });

  test("get() keeps the key that was used last where there is no room for all", () => {
    const moved = createTestClock();
    const cache = createKeyCache({ clock: moved, maxKeys: 2 });
    fillNow(cache, "a");
    fillNow(cache, "b");
    moved.advance(11_000);
    cache.get("a");
    fillNow(cache, "c");
    expect([cache.get("a") !== undefined, cache.get("b") !== undefined]).toEqual([true, false]);
  });

  test("createKeyCache() keeps no more keys than it may, known and unknown ones", () => {
    const cache = createKeyCache({ clock, maxKeys: 10 });
    for (let i = 0; i < 30; i++) fillNow(cache, `known ${i}`, keyRecord({ licenseUuid: `license ${i}` }));
    const lookUp = cache.beginLookUp();
    lookUp.fill(
      Array.from({ length: 30_000 }, (_, i) => `unknown ${i}`),
      new Map(),
    );
    lookUp.end();
    expect(cache.stats()).toMatchObject({ keys: 10, licenses: 10, unknownKeys: 10_000 });
  });

  test("createKeyCache() is never behind a naive model, over 100,000 random operations", () => {
    const random = createRandom(20261120);
    const cache = createKeyCache({ clock, maxKeys: 25 });
    const model = new NaiveKeys();
    const open: { lookUp: LookUp; hash: string; found: ReturnType<NaiveKeys["read"]> }[] = [];
    const close = (index: number) => {
      const [one] = open.splice(index, 1);
      one?.lookUp.fill([one.hash], new Map(one.found ? [[one.hash, one.found]] : []));
      one?.lookUp.end();
    };
    for (let step = 0; step < 100_000; step++) {
      const license = `license ${random(20)}`;
      const hash = `${license}, key ${random(3)}`;
      switch (random(6)) {
        case 0:
          open.push({ lookUp: cache.beginLookUp(), hash, found: model.read(hash) });
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
          cache.noteUsage(license, { monthIndex: 0, used: model.use(license, random(5)) });
          break;
        default: {
          const record = cache.get(hash);
          if (record == null) break;
          const { uuid, movedAtMs } = record;
          expect(record).toEqual({ ...model.read(hash)!, uuid, movedAtMs, cachedBy: hash });
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

/** What the database would say: a name that changes, and a count that grows. */
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

  read(hash: string) {
    const licenseUuid = hash.split(",")[0] ?? "";
    const { name, used } = this.#of(licenseUuid);
    return keyRecord({ licenseUuid, accountUuid: name, usage: { monthIndex: 0, used } });
  }
}

/** Whole numbers below `bound`, the same in every run (a linear congruential generator). */
function createRandom(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return bound === 0 ? 0 : (state >>> 8) % bound;
  };
}
