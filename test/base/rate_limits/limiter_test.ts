import { describe, expect, test } from "bun:test";
import { createLimiter, type Sender } from "../../../src/base/rate_limits/mod.ts";

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
