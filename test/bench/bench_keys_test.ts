import { describe, expect, test } from "bun:test";
import { keyPattern } from "../../src/licensing/keys/mod.ts";
import { createBrand } from "../../src/licensing/mod.ts";
import { benchKey, keyNumbers } from "./bench_keys.ts";

const all = { first: 0, step: 1, count: 1_000 };

describe("benchKey()", () => {
  test("has the service's form, and depends only on the number", () => {
    expect(benchKey(7)).toMatch(keyPattern(createBrand("svc")));
    expect(benchKey(7)).toBe(benchKey(7));
    expect(new Set(Array.from({ length: 1_000 }, (_, number) => benchKey(number))).size).toBe(1_000);
  });
});

describe("keyNumbers()", () => {
  test("yields keys in turn from any part of the database", () => {
    expect([...keyNumbers({ first: 3, step: 50, count: 4 }, { kind: "in turn" })]).toEqual([3, 53, 103, 153]);
  });

  test("draws by Zipf's law: the first twice as often as the second, ten times as often as the tenth", () => {
    const draws = 200_000;
    const drawn = new Map<number, number>();
    for (const number of keyNumbers(all, { kind: "zipf", draws, seed: 1 })) {
      drawn.set(number, (drawn.get(number) ?? 0) + 1);
    }
    const share = (rank: number) => (drawn.get(rank - 1) ?? 0) / draws;
    // The sum of 1/r up to r = 1,000 is 7.4855.
    expect(share(1)).toBeCloseTo(1 / 7.4855, 2);
    expect(share(1) / share(2)).toBeCloseTo(2, 0);
    expect(share(1) / share(10)).toBeGreaterThan(9);
    expect(share(1) / share(10)).toBeLessThan(11);
    expect(Math.max(...drawn.keys())).toBeLessThan(1_000);
  });

  test("draws the same numbers for the same seed, and others for another seed", () => {
    const draw = (seed: number) => [...keyNumbers(all, { kind: "zipf", draws: 50, seed })];
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });
});
