import { describe, expect, test } from "bun:test";
import { TEXT_RULES } from "../../src/licensing/mod.ts";

describe("TEXT_RULES.external_id", () => {
  for (const text of [
    "7",
    " ",
    "order 7",
    "Bestellung № 7",
    "注文",
    "😀",
    "x".repeat(255),
    "😀".repeat(255),
  ]) {
    test(`TEXT_RULES.external_id accepts ${JSON.stringify(text.slice(0, 30))} (${text.length})`, () => {
      expect(TEXT_RULES.external_id.parse(text)).toBe(text);
    });
  }

  const wrong = ["", "x".repeat(256), "a\nb", "a\u0000b", "a\u007fb", "a\u0085b", "a\u2028b", "a\u202eb"];
  for (const text of [...wrong, "a\u200bb", "\ud800", "\ufffd", `svc_live_${"0".repeat(48)}`]) {
    test(`TEXT_RULES.external_id refuses ${JSON.stringify(text.slice(0, 30))} (${text.length})`, () => {
      expect(TEXT_RULES.external_id.parse(text)).toBeUndefined();
    });
  }
});
