import { expect, test } from "bun:test";
import { Histogram } from "../src/histogram.ts";

test("Histogram counts a value in the first bucket whose bound it does not exceed", () => {
  const histogram = new Histogram([1, 2, 5]);
  for (const value of [0, 1, 1.001, 2, 5, 5.1, 1e9]) histogram.observe(value);
  expect(histogram.counts()).toEqual({ bounds: [1, 2, 5], counts: [2, 2, 1, 2], sum: 1e9 + 14.101 });
});

test("Histogram refuses bounds that do not ascend", () => {
  expect(() => new Histogram([1, 1])).toThrow("its bounds must ascend");
});
