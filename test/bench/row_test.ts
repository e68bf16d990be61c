import { describe, expect, test } from "bun:test";
import { isMet, toRow } from "./row.ts";

const row = (rounds: number[], target?: Parameters<typeof toRow>[0]["target"]) =>
  toRow({
    name: "a row",
    unit: "×",
    better: "more",
    rounds,
    note: "",
    details: {},
    ...(target && { target }),
  });

describe("toRow()", () => {
  test("takes the median of the rounds as the figure", () => {
    expect(row([3, 1, 2]).figure).toBe(2);
  });
});

describe("isMet()", () => {
  test("accepts the value of the target itself", () => {
    expect(isMet(row([0.75], { bound: "at least", value: 0.75 }))).toBe(true);
    expect(isMet(row([0.749], { bound: "at least", value: 0.75 }))).toBe(false);
    expect(isMet(row([1.2], { bound: "at most", value: 1.2 }))).toBe(true);
    expect(isMet(row([1.201], { bound: "at most", value: 1.2 }))).toBe(false);
  });

  test("returns undefined for a row without a target", () => {
    expect(isMet(row([1]))).toBeUndefined();
  });

  test("counts a row that failed, or whose figure is not a number, as short", () => {
    expect(isMet({ name: "a row", failure: "37 answers were 503" })).toBe(false);
    expect(isMet(row([], { bound: "at most", value: 1 }))).toBe(false);
    expect(isMet(row([]))).toBe(false);
  });
});
