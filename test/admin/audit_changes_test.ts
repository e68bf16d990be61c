/** The values before and after a change, as the console shows them. */
import { describe, expect, test } from "bun:test";
import { changesOf } from "../../src/admin/frame/console/components/changes.tsx";
import { cutText } from "../../src/admin/frame/console/cut_text.ts";
import { escapeControls } from "../../src/base/text/mod.ts";

describe("changesOf()", () => {
  test("shows an instant as all pages do", () => {
    const { changes } = changesOf({ expires_at: "2027-01-31T12:30:00Z" }, { expires_at: null });
    expect(changes).toEqual([{ field: "expiry", before: "2027-01-31 12:30", after: "never" }]);
  });

  test("leaves out values that would make the page large", () => {
    const { changes, isCut } = changesOf(
      { tier: "free", name: "<".repeat(400) },
      { tier: "research", name: "x" },
    );
    expect(isCut).toBe(true);
    expect(changes.map(({ field }) => field)).toEqual(["tier"]);
  });
});

test("cutText() keeps a short text, and cuts a long one between characters", () => {
  expect(cutText("paid", 10)).toBe("paid");
  expect(cutText("a".repeat(20), 10)).toBe(`${"a".repeat(10)}…`);
  const cut = cutText("💡".repeat(100), 25);
  expect(cut).toMatch(/^(💡)+…$/u);
  expect(escapeControls(cut)).toBe(cut);
  for (const mark of ["<", "&", '"', "\u202e"])
    expect(cutText(mark.repeat(500), 120).length).toBeLessThan(30);
});
