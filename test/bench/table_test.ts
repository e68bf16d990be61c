import { describe, expect, test } from "bun:test";
import { type Result, toRow } from "./row.ts";
import { namesOfShort, renderComparison, renderTable, toCount, toText } from "./table.ts";

const results: Result[] = [
  toRow({
    name: "start",
    unit: "s",
    better: "less",
    rounds: [2.7, 2.6, 2.8],
    target: { bound: "at most", value: 2.5 },
    note: "from nothing to the first 200",
    details: {},
  }),
  { name: "broken", failure: "3 requests were not answered" },
  toRow({
    name: "validate",
    unit: "×",
    better: "more",
    rounds: [0.78, 0.8, 0.82],
    target: { bound: "at least", value: 0.75 },
    note: "against an echo",
    details: {},
  }),
  toRow({ name: "start later", unit: "µs", better: "less", rounds: [31.25], note: "cold", details: {} }),
];

describe("renderTable()", () => {
  test("puts ratios first, each with its target next to it, and failed rows last", () => {
    expect(renderTable(results)).toBe(
      [
        "ROW          FIGURE   TARGET           MET  ROUNDS",
        "validate     0.80 ×   at least 0.75 ×  yes  3: 0.78 × to 0.82 ×",
        "    against an echo",
        "start        2.70 s   at most 2.50 s   NO   3: 2.60 s to 2.80 s",
        "    from nothing to the first 200",
        "start later  31.3 µs  -                -    1",
        "    cold",
        "broken       -        -                NO   -",
        "    NOT MEASURED: 3 requests were not answered",
        "",
      ].join("\n"),
    );
  });
});

describe("namesOfShort()", () => {
  test("names the rows that miss their target or were not measured", () => {
    expect(namesOfShort(results)).toEqual(["start", "broken"]);
  });
});

describe("renderComparison()", () => {
  test("marks a drop", () => {
    const text = renderComparison(
      [
        { name: "validate", before: 0.8, now: 0.6, loss: 0.25, isDrop: true },
        { name: "events", before: 2, now: 2.5, loss: -0.25, isDrop: false },
      ],
      "last.json",
    );
    expect(text).toBe(
      [
        "Against last.json:",
        "  DROP  validate: 0.80 × before, 0.60 × now, 25 % worse",
        "        events: 2.00 × before, 2.50 × now, 25 % better",
        "",
      ].join("\n"),
    );
  });

  test("says when nothing can be compared", () => {
    expect(renderComparison([], "last.json")).toContain("no ratio is in both");
  });
});

describe("toText()", () => {
  test("writes only significant digits", () => {
    expect([toText(0.7512, "×"), toText(31_234.6, "/s"), toText(0.0567, "ms"), toText(117.4, "ms")]).toEqual([
      "0.75 ×",
      "31,235/s",
      "0.06 ms",
      "117 ms",
    ]);
  });
});

describe("toCount()", () => {
  test("puts commas between thousands", () => {
    expect([toCount(5), toCount(1_000), toCount(1_234_567)]).toEqual(["5", "1,000", "1,234,567"]);
  });
});
