import { describe, expect, test } from "bun:test";
import { createLimiter, type Sender, type Verdict } from "../../../src/base/rate_limits/mod.ts";

const KEY: Sender = { uuid: "key", window: undefined };

describe("createLimiter()", () => {
  test("createLimiter() gives every endpoint its own limit and windows", () => {
    const { windows } = createLimiter({ validate: 2, refresh: 1, health: 0 });
    expect(windows.validate.byKey.take(KEY, 0)).toMatchObject({ limit: 2, remaining: 1 });
    expect(windows.refresh.byKey.take(KEY, 0)).toMatchObject({ limit: 1, remaining: 0 });
    expect(windows.health.byKey.take(KEY, 0)).toMatchObject({ allowed: true, limit: 0 });
    expect(windows.refresh.byKey.take(KEY, 0)).toMatchObject({ allowed: false });
    expect(windows.validate.byKey.take(KEY, 0)).toMatchObject({ allowed: true });
  });

  test("createLimiter() gives keys and addresses the same limit, and counts them separately", () => {
    const { windows } = createLimiter({ validate: 1 });
    expect(windows.validate.byKey.take(KEY, 0)).toMatchObject({ allowed: true });
    expect(windows.validate.byAddress.take(KEY.uuid, 0).allowed).toBe(true);
    expect(windows.validate.byAddress.take(KEY.uuid, 0).allowed).toBe(false);
  });

  test("createLimiter() lets the limit of a key grow at the named endpoints alone, and not that of an address", () => {
    const { windows } = createLimiter({ license: 2, validate: 2, off: 0 }, { growing: ["license", "off"] });
    const key: Sender = { uuid: "key", window: undefined, leastLimit: 3 };
    for (const remaining of [2, 1, 0])
      expect(windows.license.byKey.take(key, 0)).toMatchObject({ allowed: true, limit: 3, remaining });
    expect(windows.license.byKey.take(key, 0)).toMatchObject({
      allowed: false,
      limit: 3,
      retryAfterSeconds: 61,
    });
    expect(windows.license.byKey.peek(key, 0)).toMatchObject({ allowed: false, limit: 3 });
    expect(windows.license.byKey.take({ ...KEY, leastLimit: 1 }, 0)).toMatchObject({ limit: 2 });
    expect(windows.license.byAddress.take("key", 0)).toMatchObject({ limit: 2, remaining: 1 });
    expect(windows.validate.byKey.take(key, 0)).toMatchObject({ limit: 2, remaining: 1 });
    expect(windows.off.byKey.take(key, 0)).toMatchObject({ allowed: true, limit: 0 });
  });

  test("createLimiter() counts and takes back a request by one limit, also if that of its key changes between", () => {
    const { byKey } = createLimiter({ license: 2 }, { growing: ["license"] }).windows.license;
    const key = (leastLimit: number): Sender => ({ uuid: "key", window: undefined, leastLimit });
    const verdict = byKey.take(key(5), 0) as Verdict;
    expect(byKey.takeBack(key(9), verdict, 0)).toMatchObject({ limit: 5, remaining: 5 });
    expect(byKey.take(key(9), 0)).toMatchObject({ limit: 9, remaining: 8 });
  });

  test("createLimiter() protects the windows of keys from a flood of addresses", () => {
    const { windows, stats } = createLimiter({ validate: 5 });
    for (let i = 0; i < 51_000; i++) windows.validate.byAddress.record(`address ${i}`, i);
    expect(windows.validate.byKey.take(KEY, 51_000)).toMatchObject({ allowed: true, remaining: 4 });
    expect(stats().validate).toEqual({
      byKey: { windows: 1, refused: 0, overflowHits: 0 },
      byAddress: { windows: 50_000, refused: 0, overflowHits: 1_000 },
    });
  });
});
