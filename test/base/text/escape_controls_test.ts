import { expect, test } from "bun:test";
import { escapeControls, escapeJson } from "../../../src/base/text/mod.ts";

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
