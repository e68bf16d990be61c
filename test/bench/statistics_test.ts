import { describe, expect, test } from "bun:test";
import { median, quantile, ratios } from "./statistics.ts";

describe("median()", () => {
  test("returns the middle of an odd number of values, in any order", () => {
    expect(median([9, 1, 5])).toBe(5);
  });

  test("returns the mean of the two middle values of an even number", () => {
    expect(median([4, 1, 100, 2])).toBe(3);
  });

  test("sorts by size and not by text", () => {
    expect(median([10, 9, 100])).toBe(10);
  });

  test("is NaN without values", () => {
    expect(median([])).toBeNaN();
  });
});

describe("quantile()", () => {
  const hundred = Float64Array.from({ length: 100 }, (_, index) => index + 1);

  test("returns the value that the given share does not exceed", () => {
    expect(quantile(hundred, 0.5)).toBe(50);
    expect(quantile(hundred, 0.99)).toBe(99);
    expect(quantile(hundred, 1)).toBe(100);
  });

  test("returns the only value", () => {
    expect(quantile([7], 0.99)).toBe(7);
  });

  test("is NaN without values", () => {
    expect(quantile([], 0.5)).toBeNaN();
  });
});

describe("ratios()", () => {
  test("divides round by round, so that a slow moment of the machine affects both forms", () => {
    expect(ratios([30, 80], [40, 100])).toEqual([0.75, 0.8]);
  });

  test("is NaN if the other round is missing", () => {
    expect(ratios([1, 2], [1])[1]).toBeNaN();
  });
});
