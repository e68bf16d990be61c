import { describe, expect, test } from "bun:test";
import { Bars, compareYear } from "../../src/admin/frame/console/components/charts.tsx";
import { roundTicks, toShort, widthsOfLabels } from "../../src/admin/frame/console/components/scale.ts";

const months = (values: readonly number[]) =>
  values.map((value, index) => ({ label: `2026-${String(index + 1).padStart(2, "0")}`, values: [value] }));

const bars = (props: Partial<Parameters<typeof Bars>[0]>) =>
  String(
    Bars({
      caption: "Inferences by month",
      columnName: "Month",
      parts: ["Inferences"],
      series: [],
      unit: "inferences",
      ...props,
    }),
  );

/** The texts of an element. */
const textsOf = (html: string, name: string) =>
  [...html.matchAll(new RegExp(`<${name}\\b[^>]*>([^<]*)</${name}>`, "g"))].map(([, text]) => text);

/** What a chart shows at the pointer, for each column. */
const valuesOf = (html: string) =>
  [...html.matchAll(/<i(?: class="[^"]*")?><b>([^<]*)<\/b>/g)].map(([, text]) => text);

describe("roundTicks()", () => {
  const cases: [max: number, ticks: number[]][] = [
    [1, [0, 1]],
    [3, [0, 1, 2, 3]],
    [7, [0, 2, 4, 6, 8]],
    [100, [0, 50, 100]],
    [101, [0, 50, 100, 150]],
    [999, [0, 500, 1000]],
    [1_234_567, [0, 500_000, 1_000_000, 1_500_000]],
  ];
  for (const [max, ticks] of cases) {
    test(`returns ${ticks.join(", ")} for ${max}`, () => expect(roundTicks(max)).toEqual(ticks));
  }

  test("returns two to five whole numbers that reach any count", () => {
    for (let max = 1; max < Number.MAX_SAFE_INTEGER / 4; max = Math.ceil(max * 1.37)) {
      const ticks = roundTicks(max);
      expect(ticks.length).toBeWithin(2, 6);
      expect(ticks.every(Number.isSafeInteger)).toBe(true);
      expect(ticks.at(-1)).toBeGreaterThanOrEqual(max);
      expect(ticks.at(-2)).toBeLessThan(max);
    }
  });
});

test("widthsOfLabels() gives the newest column a label at every width, and others at equal steps", () => {
  const shownAt = (width: string, labels: readonly string[]) =>
    widthsOfLabels(labels).flatMap((widths, index) => (widths.includes(width) ? [index] : []));
  const months = Array.from({ length: 12 }, () => "2026-01");
  expect(shownAt("narrow", months)).toEqual([3, 7, 11]);
  expect(shownAt("middle", months)).toEqual([1, 3, 5, 7, 9, 11]);
  expect(shownAt("wide", months)).toHaveLength(12);
  const days = Array.from({ length: 90 }, () => "2026-01-01");
  expect(shownAt("narrow", days)).toEqual([44, 89]);
  expect(shownAt("wide", days)).toEqual([8, 17, 26, 35, 44, 53, 62, 71, 80, 89]);
  expect(shownAt("wide", ["one"])).toEqual([0]);
  expect(shownAt("narrow", ["a".repeat(100), "b"])).toEqual([1]);
  expect(widthsOfLabels([])).toEqual([]);
});

test("toShort() renders the numbers of axes", () => {
  expect([0, 500, 2_000, 20_000, 1_500_000].map(toShort)).toEqual(["0", "500", "2,000", "20K", "1.5M"]);
});

/** Each bar with its left side, and how far it reaches, in thousandths of the height. */
function barsOf(html: string): string[] {
  return [...html.matchAll(/<path class="(part-\d)" d="([^"]+)"/g)].flatMap(([, part, path = ""]) =>
    [...path.matchAll(/M(\d+) (\d+)h8v-(\d+)h-8z/g)].map(([, x, y, height]) => {
      const base = 1_000 - Number(y);
      return `${part}: ${x} ${base > 0 ? `from ${base} ` : ""}to ${base + Number(height)}`;
    }),
  );
}

describe("Bars()", () => {
  test("has the values of each column, the sum as its headline, and a table with the newest first", () => {
    const html = bars({ series: months([0, 1_234, 40]) });
    expect(valuesOf(html)).toEqual([
      ...["2026-01\nInferences 0", "2026-02\nInferences 1,234", "2026-03\nInferences 40"],
    ]);
    expect(html).toContain('<p class="total"><b>1,274</b> inferences</p>');
    // The focus begins with the newest column.
    expect(html).toContain('aria-valuetext="2026-03\nInferences 40"');
    expect(html).toContain('<i class="late at"><b>2026-03');
    expect(html).toContain('aria-label="Inferences by month"');
    expect(textsOf(html, "figcaption")).toEqual(["Inferences by month"]);
    expect(textsOf(html, "th")).toEqual(["Month", "Inferences", "2026-03", "2026-02", "2026-01"]);
    expect(textsOf(html, "td")).toEqual(["40", "1,234", "0"]);
    expect(textsOf(html, "span")).toEqual(["1,500", "1,000", "500", "0"]);
  });

  test("says how its sum differs from that of an earlier time", () => {
    const headline = (earlier: number) =>
      bars({
        series: months([100, 20]),
        compared: { columns: months([earlier - 1, 1, 90, 30]), than: "the two months before" },
      })
        .match(/<p class="total">(.*?)<\/p>/)?.[1]
        ?.replace("<b>120</b> inferences", "");
    expect([100, 240, 120, 0].map(headline)).toEqual([
      ", 20 % more than in the two months before",
      ", 50 % less than in the two months before",
      ", as many as in the two months before",
      ", none in the two months before",
    ]);
  });

  test("of twelve months compares the eleven that are over with the eleven before the chart", () => {
    const of = (value: number) => Array.from({ length: 11 }, () => value);
    for (const earlier of [[], [9_000]]) {
      const columns = months([...earlier, 7_000, ...of(10), ...of(15), 3]);
      const [, total] =
        bars({ series: columns.slice(-12), compared: compareYear(columns) }).match(
          /<p class="total">(.*?)<\/p>/,
        ) ?? [];
      expect(total).toBe(
        "<b>168</b> inferences, 50 % more than in the eleven months before this chart; this month is not compared",
      );
    }
  });

  test("draws bars in proportion, each at least visible, and none for 0", () => {
    const html = bars({ series: months([0, 1, 500, 1_000]) });
    expect(barsOf(html)).toEqual(["part-0: 11 to 8", "part-0: 21 to 500", "part-0: 31 to 1000"]);
  });

  test("hatches a bar whose time is not over, and says so in the legend, in its values and in the table", () => {
    const html = bars({
      series: months([600, 40]).map((bar) => ({ ...bar, isOpen: bar.label === "2026-02" })),
    });
    const id = "hatch-Inferences-by-month";
    expect(html).toContain(`<pattern id="${id}"`);
    expect(html.match(new RegExp(`fill="url\\(#${id}\\)"`, "g"))).toHaveLength(2);
    expect(html.match(/<li>.*?<\/li>/)?.[0]).toEndWith("not over</li>");
    expect(valuesOf(html)).toEqual(["2026-01\nInferences 600", "2026-02, not over\nInferences 40"]);
    expect(textsOf(html, "th").slice(2)).toEqual(["2026-02, not over", "2026-01"]);
    for (const series of [
      months([600, 40]),
      [
        { label: "2026-01", values: [1] },
        { label: "2026-02", values: [0], isOpen: true },
      ],
    ])
      expect(bars({ series })).not.toContain("url(#");
  });

  test("draws the limit as a line, and makes room for it", () => {
    const limit = { value: 1_000, label: "Limit: 1,000 a month" };
    const html = bars({ series: months([600]), limit });
    expect(html).toContain('<line class="limit" x2="100%" y1="0%"');
    expect(html.match(/<li>.*?<\/li>/)?.[0]).toEndWith("Limit: 1,000 a month</li>");
  });

  test("names a limit far above the bars without a line", () => {
    const html = bars({ series: months([3]), limit: { value: 1_000_000, label: "Limit: 1,000,000" } });
    expect(html).not.toContain('class="limit"');
    expect(html).toContain("<li>Limit: 1,000,000, above this chart</li>");
  });

  test("says in words that there is nothing to show", () => {
    for (const series of [[], months([0, 0])]) {
      const html = bars({ series, empty: "No inferences were reported." });
      expect(html).toContain("No inferences were reported.");
      expect(html).not.toContain("<svg");
    }
    expect(bars({})).toContain("There is nothing to show for this time.");
  });

  test("shows text of others as text", () => {
    const html = bars({ caption: "<b>", series: [{ label: "<s>", title: "</b><script>", values: [1] }] });
    expect(html).not.toMatch(/<s>|<script>|<b><|<\/b><script/);
  });

  test("keeps ninety days small", () => {
    const series = Array.from({ length: 90 }, (_, day) => ({ label: `2026-11-${day}`, values: [day * 997] }));
    expect(bars({ series }).length).toBeLessThan(40_000);
  });
});

describe("Bars() of several parts", () => {
  const html = String(
    Bars({
      caption: "Inferences by tier",
      columnName: "Day",
      parts: ["free", "research", "commercial"],
      series: [
        { label: "1", values: [10, 20, 70] },
        { label: "2", values: [50, 0, 0] },
      ],
      unit: "inferences",
    }),
  );

  test("stacks the parts from the bottom up", () => {
    expect(barsOf(html)).toEqual([
      ...["part-0: 1 to 100", "part-0: 11 to 500"],
      ...["part-1: 1 from 100 to 300", "part-2: 1 from 300 to 1000"],
    ]);
  });

  test("names the parts in the legend, in the values and in the table, with their sum", () => {
    expect([...html.matchAll(/<\/svg>([^<]+)<\/li>/g)].map(([, name]) => name)).toEqual([
      "free",
      "research",
      "commercial",
    ]);
    expect(valuesOf(html)).toEqual([
      "1\nfree 10\nresearch 20\ncommercial 70\nAll 100",
      "2\nfree 50\nresearch 0\ncommercial 0\nAll 50",
    ]);
    expect(textsOf(html, "td")).toEqual(["50", "0", "0", "50", "10", "20", "70", "100"]);
  });
});
