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
  test("has the median of its rounds as its figure", () => {
    expect(row([3, 1, 2]).figure).toBe(2);
  });
});

describe("isMet()", () => {
  test("lets a target be kept by its own value, unless more is asked for", () => {
    expect(isMet(row([0.75], { bound: "at least", value: 0.75 }))).toBe(true);
    expect(isMet(row([0.749], { bound: "at least", value: 0.75 }))).toBe(false);
    expect(isMet(row([1.2], { bound: "at most", value: 1.2 }))).toBe(true);
    expect(isMet(row([1.201], { bound: "at most", value: 1.2 }))).toBe(false);
    expect(isMet(row([30_000], { bound: "more than", value: 30_000 }))).toBe(false);
    expect(isMet(row([30_001], { bound: "more than", value: 30_000 }))).toBe(true);
  });

  test("says nothing of a row without a target", () => {
    expect(isMet(row([1]))).toBeUndefined();
  });

  test("takes what was not measured, or is no number, for short", () => {
    expect(isMet({ name: "a row", failure: "37 answers were 503" })).toBe(false);
    expect(isMet(row([], { bound: "at most", value: 1 }))).toBe(false);
    expect(isMet(row([]))).toBe(false);
  });
});
