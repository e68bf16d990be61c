import { describe, expect, test } from "bun:test";
import { median, quantile, ratios } from "./statistics.ts";

describe("median()", () => {
  test("takes the middle of an odd number of values, in whatever order they come", () => {
    expect(median([9, 1, 5])).toBe(5);
  });

  test("takes the mean of the two middle ones of an even number", () => {
    expect(median([4, 1, 100, 2])).toBe(3);
  });

  test("goes by size and not by spelling", () => {
    expect(median([10, 9, 100])).toBe(10);
  });

  test("is no number where there are no values", () => {
    expect(median([])).toBeNaN();
  });
});

describe("quantile()", () => {
  const hundred = Float64Array.from({ length: 100 }, (_, index) => index + 1);

  test("takes the value that so many are not above", () => {
    expect(quantile(hundred, 0.5)).toBe(50);
    expect(quantile(hundred, 0.99)).toBe(99);
    expect(quantile(hundred, 1)).toBe(100);
  });

  test("takes the only value there is", () => {
    expect(quantile([7], 0.99)).toBe(7);
  });

  test("is no number where there are no values", () => {
    expect(quantile([], 0.5)).toBeNaN();
  });
});

describe("ratios()", () => {
  test("divides round by round, so that a slow moment of the machine meets both", () => {
    expect(ratios([30, 80], [40, 100])).toEqual([0.75, 0.8]);
  });

  test("is no number where the other round is missing", () => {
    expect(ratios([1, 2], [1])[1]).toBeNaN();
  });
});
