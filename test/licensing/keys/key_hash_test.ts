import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import { nodePlatform } from "../../../src/base/platform/node/mod.ts";
import {
  createKeyHasher,
  hasSameRest,
  parseKeyHash,
  renderKeyHash,
} from "../../../src/licensing/keys/key_hash.ts";
import { hashApiKey } from "../../../src/licensing/keys/mod.ts";

const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;

describe.each([bunPlatform, nodePlatform])("createKeyHasher() by the platform of $name", ({ sha256 }) => {
  test.each([KEY, "", "é中😀"])(
    "createKeyHasher() makes the same hash for %j as the database stores",
    (key) => {
      expect(renderKeyHash(createKeyHasher(sha256)(key))).toBe(hashApiKey(key));
    },
  );

  test("createKeyHasher() does not change a hash when it makes another", () => {
    const hashKey = createKeyHasher(sha256);
    const first = hashKey(KEY);
    hashKey("another");
    expect(renderKeyHash(first)).toBe(hashApiKey(KEY));
  });
});

describe("renderKeyHash()", () => {
  test("renderKeyHash() returns every parsed hash unchanged", () => {
    const hashes = Array.from({ length: 10_000 }, (_, i) => hash("sha256", String(i), "hex"));
    expect(hashes.map((digits) => renderKeyHash(parseKeyHash(digits)))).toEqual(hashes);
  });

  test.each(["0", "f", "01", "80"])(
    "renderKeyHash() keeps every digit of a hash that repeats %s",
    (digits) => {
      const all = digits.repeat(64 / digits.length);
      expect(renderKeyHash(parseKeyHash(all))).toBe(all);
    },
  );
});

describe("hasSameRest()", () => {
  test("hasSameRest() compares all bytes except the first six", () => {
    const bytes = Buffer.from(hash("sha256", KEY, "buffer"));
    for (let at = 0; at < bytes.length; at++) {
      const other = Buffer.from(bytes);
      other[at] = (other[at] ?? 0) ^ 1;
      const isSame = hasSameRest(parseKeyHash(bytes.toString("hex")), parseKeyHash(other.toString("hex")));
      expect(isSame).toBe(at < 6);
    }
  });
});
