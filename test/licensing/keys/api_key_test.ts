import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { generateApiKey, hashApiKey, keyPattern, modeOf, toHint } from "../../../src/licensing/keys/mod.ts";
import { createBrand } from "../../../src/licensing/mod.ts";
import { BRAND } from "../../support/issue.ts";

const HEX = "0123456789abcdef".repeat(3);

describe("keyPattern()", () => {
  test.each([`svc_live_${HEX}`, `svc_test_${HEX}`])("keyPattern() matches %s", (key) => {
    expect(keyPattern(BRAND).test(key)).toBe(true);
  });

  test.each([
    "",
    `svc_live_${HEX.toUpperCase()}`,
    `svc_live_${HEX.slice(1)}`,
    `svc_live_${HEX}0`,
    ` svc_live_${HEX}`,
    `svc_live_${HEX}\n`,
    `svc_live_${HEX} `,
    `SVC_live_${HEX}`,
    `svc_prod_${HEX}`,
    `xyz_live_${HEX}`,
    `svc-live-${HEX}`,
    `svc_live_${HEX.slice(1)}g`,
    `svc_live_${HEX.slice(1)}٣`,
  ])("keyPattern() refuses %j", (key) => {
    expect(keyPattern(BRAND).test(key)).toBe(false);
  });

  test("keyPattern() matches only keys of its brand", () => {
    const other = createBrand("acme");
    expect(keyPattern(other).test(`acme_live_${HEX}`)).toBe(true);
    expect(keyPattern(other).test(`svc_live_${HEX}`)).toBe(false);
  });
});

describe("generateApiKey()", () => {
  test.each(["live", "test"] as const)("generateApiKey() makes a different %s key each time", (mode) => {
    const keys = Array.from({ length: 1_000 }, () => generateApiKey(BRAND, mode));
    expect(new Set(keys.map(({ apiKey }) => apiKey)).size).toBe(1_000);
    for (const { apiKey, hash, hint } of keys) {
      expect(apiKey).toMatch(keyPattern(BRAND));
      expect(modeOf(apiKey)).toBe(mode);
      expect(hash).toBe(createHash("sha256").update(apiKey).digest("hex"));
      expect(hint).toBe(`svc_${mode}_${apiKey.slice(9, 13)}…${apiKey.slice(-4)}`);
    }
  });
});

test("modeOf() reads the mode after a brand that contains the name of a mode", () => {
  expect(modeOf(`live_test_${HEX}`)).toBe("test");
  expect(modeOf(`test_live_${HEX}`)).toBe("live");
});

test("toHint() returns the prefix, the first and the last four characters, and fits its column", () => {
  expect(toHint(`svc_live_${HEX}`)).toBe("svc_live_0123…cdef");
  expect(toHint(`${"a".repeat(16)}_live_${HEX}`).length).toBeLessThanOrEqual(40);
});

test("hashApiKey() returns the SHA-256 in lowercase hexadecimal digits", () => {
  expect(hashApiKey("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});
