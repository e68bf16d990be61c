/** Cursors of lists: a cursor keeps the time of the first page, and fits only its own list and filters. */
import { describe, expect, test } from "bun:test";
import { MAX_CURSOR_LENGTH, parseCursor, renderCursor } from "../../src/admin/frame/api/cursor.ts";
import { isRefusal, type Refusal } from "../../src/base/refusal.ts";

const LIST = { name: "keys", filters: { tier: "free", search: "olga" } };
const AT = new Date("2026-11-20T12:00:00.123Z");
const NOW = new Date("2026-11-20T13:00:00Z");
const POSITION = "01990000-0000-7000-8000-000000000001";
const cursor = renderCursor(LIST, { at: AT, position: POSITION });

describe("parseCursor()", () => {
  test("returns the position, and the time of the first page", () => {
    expect(parseCursor(LIST, cursor, NOW)).toEqual({ at: AT, position: POSITION });
    expect(parseCursor(LIST, undefined, NOW)).toEqual({ at: NOW, position: undefined });
  });

  test("accepts the same filters in another order, and ignores a filter that is undefined", () => {
    const filters = { search: "olga", mode: undefined, tier: "free" };
    expect(isRefusal(parseCursor({ ...LIST, filters }, cursor, NOW))).toBe(false);
  });

  test("refuses the cursor of another list or of other filters", () => {
    for (const other of [
      { ...LIST, name: "accounts" },
      { ...LIST, filters: { tier: "free" } },
      { ...LIST, filters: { tier: "free", search: "olga", mode: "test" } },
      { ...LIST, filters: { tier: "olga", search: "free" } },
    ]) {
      const { code, sentence, fields } = parseCursor(other, cursor, NOW) as Refusal;
      expect({ code, field: fields?.[0]?.field }).toEqual({ code: "INVALID_REQUEST", field: "after" });
      expect(sentence).toEndWith("after must be the `next` of an answer to a request with the same filters");
    }
  });

  test("refuses a cursor with any changed, missing or additional character", () => {
    for (let index = 0; index < cursor.length; index++) {
      const other = cursor[index] === "A" ? "B" : "A";
      for (const changed of [
        cursor.slice(0, index) + other + cursor.slice(index + 1),
        cursor.slice(0, index),
        cursor.slice(index + 1),
      ]) {
        expect(isRefusal(parseCursor(LIST, changed, NOW))).toBe(true);
      }
    }
    for (const text of ["", `${cursor}A`, ` ${cursor}`, "é".repeat(60), "A".repeat(MAX_CURSOR_LENGTH + 1)]) {
      expect(isRefusal(parseCursor(LIST, text, NOW))).toBe(true);
    }
  });

  test("refuses a position and a time that no page has, also with the right digest", () => {
    expect(isRefusal(parseCursor(LIST, renderCursor(LIST, { at: AT, position: "x" }), NOW))).toBe(true);
    for (const at of [8.64e15, Date.parse("9999-12-31T23:59:59Z"), -1]) {
      const far = renderCursor(LIST, { at: new Date(at), position: POSITION });
      expect([at, isRefusal(parseCursor(LIST, far, NOW))]).toEqual([at, true]);
    }
    const commits = { ...LIST, position: /^\d+$/ };
    const followed = renderCursor(commits, { at: AT, position: "42" });
    expect(parseCursor(commits, followed, NOW)).toEqual({ at: AT, position: "42" });
  });
});
