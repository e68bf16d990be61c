import { describe, expect, test } from "bun:test";
import { renderBar, withBars } from "../../src/cli/text_bars.ts";

describe("renderBar()", () => {
  test("renders eighths of a character, and never hides a number above zero", () => {
    expect(renderBar(1, 3)).toBe("███");
    expect(renderBar(0.5, 3)).toBe("█▌");
    expect(renderBar(0.000_1, 3)).toBe("▏");
    expect(renderBar(0, 3)).toBe("");
    expect(renderBar(Number.NaN, 3)).toBe("");
  });
});

describe("withBars()", () => {
  const rows = [
    { day: "2026-11-01", used: 4 },
    { day: "2026-11-02", used: 1 },
    { day: "2026-11-03", used: 0 },
  ];

  test("adds a column of bars that fits next to the table", () => {
    const [longest, short, none] = withBars(rows, { of: "used", columns: 38 });
    // 10 and 4 characters, each with its gap, leave 20.
    expect(longest?.chart).toBe("█".repeat(20));
    expect(short?.chart).toBe("█".repeat(5));
    expect(none?.chart).toBe("");
    expect(withBars(rows, { of: "used", columns: 200 })[0]?.chart).toHaveLength(40);
  });

  test("leaves the rows as they are without a terminal, and in a narrow one", () => {
    expect(withBars(rows, { of: "used", columns: undefined })).toBe(rows);
    expect(withBars(rows, { of: "used", columns: 20 })).toBe(rows);
  });
});
