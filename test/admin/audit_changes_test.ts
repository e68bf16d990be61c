/** What the console shows of the values before and after a change. */
import { describe, expect, test } from "bun:test";
import { changesOf } from "../../src/admin/console/audit_changes.ts";
import { cutText } from "../../src/admin/console/cut_text.ts";
import { escapeControls } from "../../src/text/mod.ts";

const shown = (before: unknown, after: unknown) =>
  changesOf(before, after).changes.map(({ field, before, after }) => [field, before, after]);

describe("changesOf()", () => {
  test("shows the changed fields, and the name of the changed thing", () => {
    const before = {
      operator: "ivan",
      role: "viewer",
      monthly_limit: null,
      expires_at: "2027-01-31T12:30:00+00:00",
    };
    const after = {
      operator: "ivan",
      role: "editor",
      monthly_limit: 5_000,
      expires_at: "9999-12-31T23:59:59Z",
    };
    expect(shown(before, after)).toEqual([
      ["operator", undefined, "ivan"],
      ["role", "viewer", "editor"],
      ["monthly limit", "that of the tier", "5,000"],
      ["expires at", "2027-01-31 12:30", "never"],
    ]);
    expect(shown({ tier: "free", mode: "live" }, { tier: "free", mode: "test" })).toEqual([
      ["mode", "live", "test"],
    ]);
  });

  test("shows every field of a thing that was made or removed, and values of any form", () => {
    expect(shown(null, { scopes: ["keys:read", "keys:issue"], mode: null, deep: { a: 1 } })).toEqual([
      ["scopes", undefined, "keys:read, keys:issue"],
      ["mode", undefined, "none"],
      ["deep", undefined, '{"a":1}'],
    ]);
    expect(shown({ session: "ses_1" }, null)).toEqual([["session", "ses_1", undefined]]);
    expect(shown(null, null)).toEqual([]);
    expect(shown(null, "text")).toEqual([["value", undefined, "text"]]);
  });

  test("leaves out what would make the page large", () => {
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
