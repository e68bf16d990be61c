import { describe, expect, test } from "bun:test";
import { compareRuns } from "./comparison.ts";
import { type Row, toRow } from "./row.ts";

const ratio = (name: string, figure: number, better: Row["better"] = "more"): Row =>
  toRow({ name, unit: "×", better, rounds: [figure], note: "", details: {} });

describe("compareRuns()", () => {
  test("reports a drop when a ratio loses more than a tenth, but not when it loses exactly a tenth", () => {
    const before = [ratio("fell", 1), ratio("fell a tenth", 1), ratio("rose", 1)];
    const now = [ratio("fell", 0.89), ratio("fell a tenth", 0.9), ratio("rose", 1.5)];
    expect(compareRuns(before, now).map(({ name, isDrop }) => [name, isDrop])).toEqual([
      ["fell", true],
      ["fell a tenth", false],
      ["rose", false],
    ]);
  });

  test("reports a drop when a ratio that should be small grows", () => {
    const before = [ratio("cost", 1, "less"), ratio("latency", 1, "less")];
    const [cost, latency] = compareRuns(before, [ratio("cost", 1.2, "less"), ratio("latency", 0.5, "less")]);
    expect(cost).toMatchObject({ before: 1, now: 1.2, isDrop: true });
    expect(cost?.loss).toBeCloseTo(1 / 6);
    expect(latency?.isDrop).toBe(false);
  });

  test("leaves out absolute figures, rows of only one run, and failed rows", () => {
    const absolute = toRow({ ...ratio("absolute", 5), unit: "/s" });
    const before = [absolute, ratio("gone", 1), ratio("failed now", 1), { name: "failed", failure: "why" }];
    const now = [absolute, ratio("new", 1), { name: "failed now", failure: "why" }, ratio("failed", 1)];
    expect(compareRuns(before, now)).toEqual([]);
  });

  test("finds no loss between a run and itself after a round trip through JSON", () => {
    const run = [ratio("one", 0.81), ratio("other", 2.3)];
    const readBack = JSON.parse(JSON.stringify(run)) as Row[];
    expect(compareRuns(readBack, run).map(({ loss }) => loss)).toEqual([0, 0]);
  });
});
