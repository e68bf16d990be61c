import { expect, test } from "bun:test";
import { Histogram, quantileOf } from "../../src/base/histogram.ts";

test("Histogram counts a value in the first bucket whose bound it does not exceed", () => {
  const histogram = new Histogram([1, 2, 5]);
  for (const value of [0, 1, 1.001, 2, 5, 5.1, 1e9]) histogram.observe(value);
  expect(histogram.counts()).toEqual({ bounds: [1, 2, 5], counts: [2, 2, 1, 2], sum: 1e9 + 14.101 });
});

test("Histogram refuses bounds that do not ascend", () => {
  expect(() => new Histogram([1, 1])).toThrow("its bounds must ascend");
});

test("quantileOf() adds up histograms, and takes the values of a bucket as evenly spread", () => {
  const [one, other] = [new Histogram([1, 2, 5]), new Histogram([1, 2, 5])];
  expect([quantileOf([], 0.5), quantileOf([one.counts()], 0.5)]).toEqual([null, null]);
  for (let n = 0; n < 8; n++) one.observe(1.5);
  for (let n = 0; n < 2; n++) other.observe(3);
  const counts = [one.counts(), other.counts()];
  expect(quantileOf(counts, 0.4)).toBe(1.5);
  expect(quantileOf(counts, 0.8)).toBe(2);
  expect(quantileOf(counts, 0.95)).toBe(4.25);
  expect(quantileOf(counts, 1)).toBe(5);
});

test("quantileOf() takes a value above the last bound as that bound", () => {
  const histogram = new Histogram([1, 2]);
  for (const value of [0.5, 900, 900]) histogram.observe(value);
  expect(quantileOf([histogram.counts()], 0.95)).toBe(2);
});
