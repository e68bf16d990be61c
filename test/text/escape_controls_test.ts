import { expect, test } from "bun:test";
import { escapeControls, escapeJson, escapeLines, LINE_ANEW } from "../../src/text/mod.ts";

const EVERY = Array.from({ length: 0x3000 }, (_, code) => String.fromCharCode(code)).join("");
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;

test("escapeControls() does not change letters of any script", () => {
  expect(escapeControls("Zoë 李 🔑 'ok' שלום")).toBe("Zoë 李 🔑 'ok' שלום");
});

test("escapeControls() makes each control character and mark of direction visible", () => {
  expect(escapeControls("a\r\n\t\u001b\u0085\u200f\u202e\u2028")).toBe(
    "a\\r\\n\\t\\u001b\\u0085\\u200f\\u202e\\u2028",
  );
  expect(escapeControls(EVERY)).not.toMatch(UNPRINTABLE);
});

test("escapeJson() keeps the value and the line breaks between members", () => {
  const value = { [EVERY]: [EVERY, 1, null] };
  const json = escapeJson(JSON.stringify(value, null, 2));
  expect(JSON.parse(json)).toEqual(value);
  expect(json.replaceAll("\n", "")).not.toMatch(UNPRINTABLE);
  expect(json.split("\n")).toHaveLength(7);
});

test("escapeLines() keeps line breaks, rewritten lines, and three colours", () => {
  const text = `one\n${LINE_ANEW}two\n\u001b[31mfail\u001b[39m\u001b[32m\u001b[33m\n`;
  expect(escapeLines(text)).toBe(text);
  expect(escapeLines("\u001b[30m\u001b[8m\u001b[131m\u001b[31;8m")).toBe(
    "\\u001b[30m\\u001b[8m\\u001b[131m\\u001b[31;8m",
  );
  expect(escapeLines("\r\u001b[2K\u001b[K\r\t")).toBe("\\r\\u001b[2K\\u001b[K\\r\\t");
  expect(escapeLines(EVERY).replaceAll("\n", "")).not.toMatch(UNPRINTABLE);
});
