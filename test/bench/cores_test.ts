import { describe, expect, test } from "bun:test";
import { onCores, parseCores } from "./cores.ts";

describe("parseCores()", () => {
  test("reads single cores and ranges, as Linux lists them", () => {
    expect(parseCores("0-3,8")).toEqual([0, 1, 2, 3, 8]);
    expect(parseCores("5")).toEqual([5]);
    expect(parseCores("")).toEqual([]);
  });
});

describe("onCores()", () => {
  test("adds nothing to a command that may run on any core", () => {
    expect(onCores(undefined)).toEqual([]);
    expect(onCores("1")).toEqual(["taskset", "--cpu-list", "1"]);
  });
});
