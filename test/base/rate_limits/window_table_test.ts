/**
 * The windows of the rate limits, one rule in each test, with the time as an argument. `window_table_model_test.ts`
 * compares random calls with a naive model.
 */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type Sender, toResetAt, WindowTable } from "../../../src/base/rate_limits/mod.ts";

/** Calls `take` this many times at one moment, and returns how many were allowed. */
function takeMany(table: WindowTable, key: string, { times, atMs }: { times: number; atMs: number }): number {
  let allowed = 0;
  for (let i = 0; i < times; i++) if (table.take(key, atMs).allowed) allowed += 1;
  return allowed;
}

describe("take()", () => {
  test("take() counts a sender in its window of this table, though it refers to a window of another table", () => {
    const [one, other] = [new WindowTable(2, 10), new WindowTable(2, 10)];
    const sender = { uuid: "a", window: undefined };
    expect([one, other, one, other].map((table) => table.take(sender, 0).remaining)).toEqual([1, 1, 0, 0]);
    expect([one, other].map((table) => table.take("a", 0).allowed)).toEqual([false, false]);
  });

  test("take() makes a new window for a sender whose window was freed, and refers the sender to it", () => {
    const table = new WindowTable(2, 10);
    const sender = { uuid: "a", window: undefined };
    for (let i = 0; i < 3; i++) table.take(sender, 0);
    table.take("b", 61_000);
    expect(table.stats().windows).toBe(1);
    expect(table.take(sender, 61_000)).toMatchObject({ allowed: true, remaining: 1 });
    expect(table.take("a", 61_000)).toMatchObject({ allowed: true, remaining: 0 });
    expect(table.take(sender, 61_000).allowed).toBe(false);
  });

  test("take() unlinks a freed window: a sender that refers to it keeps no other window in memory", () => {
    const table = new WindowTable(2, 10);
    const idle: Sender = { uuid: "idle", window: undefined };
    table.take(idle, 0);
    table.take("beside it", 0);
    for (let i = 1; i <= 100; i++) table.take(`later ${i}`, i * 61_000);
    expect(table.stats().windows).toBe(1);
    expect(idle.window).toMatchObject({ holder: undefined, before: undefined, after: undefined });
  });

  test("take() allows exactly the limit when ten times as many requests come at once", () => {
    const table = new WindowTable(100, 10);
    expect(takeMany(table, "a", { times: 1000, atMs: 5_300 })).toBe(100);
    expect(table.stats()).toEqual({ windows: 1, refused: 900, overflowHits: 0 });
  });

  test("take() counts each sender separately", () => {
    const table = new WindowTable(3, 10);
    expect(takeMany(table, "a", { times: 9, atMs: 0 })).toBe(3);
    expect(takeMany(table, "b", { times: 9, atMs: 0 })).toBe(3);
  });

  test("take() refuses everything 59.9 s after the limit was used, and up to a second beyond 60", () => {
    const table = new WindowTable(10, 10);
    takeMany(table, "a", { times: 10, atMs: 100_000 });
    expect(takeMany(table, "a", { times: 10, atMs: 159_900 })).toBe(0);
    expect(takeMany(table, "a", { times: 10, atMs: 160_000 })).toBe(0);
    expect(takeMany(table, "a", { times: 10, atMs: 160_999 })).toBe(0);
    expect(takeMany(table, "a", { times: 20, atMs: 161_000 })).toBe(10);
  });

  test("take() allows everything again 60.1 s after requests at the end of a second", () => {
    const table = new WindowTable(10, 10);
    takeMany(table, "a", { times: 10, atMs: 100_950 });
    expect(takeMany(table, "a", { times: 10, atMs: 160_999 })).toBe(0);
    expect(takeMany(table, "a", { times: 20, atMs: 161_050 })).toBe(10);
  });

  test("take() frees room second by second", () => {
    const table = new WindowTable(60, 10);
    for (let second = 0; second < 60; second++) table.take("a", second * 1000);
    expect(table.take("a", 60_500)).toMatchObject({ allowed: false, retryAfterSeconds: 1 });
    for (let second = 61; second < 300; second++) {
      expect(takeMany(table, "a", { times: 5, atMs: second * 1000 })).toBe(second % 61 === 60 ? 0 : 1);
    }
  });

  test("take() returns how many requests are left, when to retry and when the window is empty", () => {
    const table = new WindowTable(2, 10);
    expect(table.take("a", 1_250)).toEqual({
      allowed: true,
      limit: 2,
      remaining: 1,
      retryAfterSeconds: 0,
      countedSecond: 1,
      resetAfterMs: 60_750,
    });
    expect(table.take("a", 11_000)).toMatchObject({ allowed: true, remaining: 0, resetAfterMs: 61_000 });
    expect(table.take("a", 12_900)).toEqual({
      allowed: false,
      limit: 2,
      remaining: 0,
      retryAfterSeconds: 50,
      countedSecond: undefined,
      resetAfterMs: 59_100,
    });
  });

  test("take() does not count refused requests", () => {
    const table = new WindowTable(1, 10);
    table.take("a", 0);
    for (let atMs = 1_000; atMs < 61_000; atMs += 100) expect(table.take("a", atMs).allowed).toBe(false);
    expect(table.take("a", 61_000).allowed).toBe(true);
  });

  test("takeBack() returns the room of a counted request, in whichever second it was counted", () => {
    const table = new WindowTable(3, 10);
    const verdicts = [500, 1_500, 2_500].map((atMs) => table.take("a", atMs));
    const refused = table.take("a", 3_000);
    expect(refused.allowed).toBe(false);
    expect(table.takeBack("a", refused, 3_000)).toBe(refused);
    for (const [index, left] of [
      [1, 1],
      [2, 2],
    ] as const) {
      const verdict = verdicts[index] ?? refused;
      expect(table.takeBack("a", verdict, 3_000)).toMatchObject({ allowed: true, remaining: left });
    }
    // The remaining requests were counted in second 0.
    expect(table.peek("a", 3_000).resetAfterMs).toBe(58_000);
    expect(takeMany(table, "a", { times: 5, atMs: 3_000 })).toBe(2);
  });

  test("takeBack() returns no room for a request that has left the window", () => {
    const table = new WindowTable(1, 10);
    const old = table.take("a", 0);
    table.take("a", 61_000);
    expect(table.takeBack("a", old, 61_000)).toMatchObject({ allowed: false, remaining: 0 });
  });

  test("takeBack() returns room to a window that was made later, and not to the shared window", () => {
    const table = new WindowTable(2, 1);
    table.take("a", 0);
    const shared = table.take("b", 30_000);
    // The place is free now. The new window inherits the shared window's count, which any sender may have caused.
    expect(table.take("b", 61_000)).toMatchObject({ allowed: true, remaining: 0 });
    expect(table.takeBack("b", shared, 61_000)).toMatchObject({ allowed: true, remaining: 1 });
    expect(table.take("c", 61_000)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("take() counts a request with an earlier time in the newest known second", () => {
    const table = new WindowTable(1, 10);
    table.take("b", 5_000);
    expect(table.take("a", 4_200).resetAfterMs).toBe(61_800);
    expect(table.take("a", 65_900)).toMatchObject({ allowed: false, retryAfterSeconds: 1 });
    expect(table.take("a", 66_000).allowed).toBe(true);
  });

  test("take() allows every request when the limit is switched off, and keeps no window", () => {
    const table = new WindowTable(0, 10);
    expect(takeMany(table, "a", { times: 1000, atMs: 0 })).toBe(1000);
    expect(table.record("b", 0)).toEqual({
      allowed: true,
      limit: 0,
      remaining: 0,
      retryAfterSeconds: 0,
      countedSecond: undefined,
      resetAfterMs: 0,
    });
    expect(table.stats()).toEqual({ windows: 0, refused: 0, overflowHits: 0 });
  });
});

describe("record()", () => {
  test("record() counts beyond the limit, and returns the true wait", () => {
    const table = new WindowTable(3, 10);
    for (let second = 0; second < 10; second++) {
      expect(table.record("a", second * 1000).allowed).toBe(second < 3);
    }
    const refused = table.take("a", 10_000);
    // Ten requests are counted: there is room when the eight of seconds 0 to 7 have left the window.
    expect(refused).toMatchObject({ allowed: false, remaining: 0, retryAfterSeconds: 58 });
    expect(table.take("a", 67_999).allowed).toBe(false);
    expect(table.take("a", 68_000).allowed).toBe(true);
  });

  test("record() never returns fewer than 0 remaining requests", () => {
    const table = new WindowTable(1, 10);
    for (let i = 0; i < 5; i++) expect(table.record("a", 0).remaining).toBe(0);
  });
});

describe("toResetAt()", () => {
  test("toResetAt() is never before the window is empty, and less than a second after", () => {
    const verdict = new WindowTable(1, 1).take("a", 1_250);
    // Empty 60.75 s from now.
    expect(toResetAt(verdict, 1_700_000_000_000)).toBe(1_700_000_061);
    expect(toResetAt(verdict, 1_700_000_000_250)).toBe(1_700_000_061);
    expect(toResetAt(verdict, 1_700_000_000_251)).toBe(1_700_000_062);
  });
});

describe("new WindowTable()", () => {
  test.each([[-1], [1.5], [Number.NaN], [Number.POSITIVE_INFINITY]])(
    "new WindowTable() throws for a limit of %p",
    (limit) => {
      expect(() => new WindowTable(limit, 1)).toThrow("Cannot make windows: limit must be");
    },
  );

  test.each([[0], [1.5], [Number.NaN]])("new WindowTable() throws for a capacity of %p", (capacity) => {
    expect(() => new WindowTable(1, capacity)).toThrow("Cannot make windows: capacity must be");
  });
});

describe("a full WindowTable", () => {
  test("a full WindowTable counts all new senders in one shared window, and known senders keep their own", () => {
    const table = new WindowTable(3, 2);
    table.take("a", 0);
    table.take("b", 0);
    expect(table.take("c", 0)).toMatchObject({ allowed: true, remaining: 2 });
    expect(table.take("d", 0)).toMatchObject({ allowed: true, remaining: 1 });
    expect(table.record("e", 0)).toMatchObject({ allowed: true, remaining: 0 });
    expect(table.take("f", 0)).toMatchObject({ allowed: false, retryAfterSeconds: 61 });
    expect(table.take("a", 0)).toMatchObject({ allowed: true, remaining: 1 });
    expect(table.stats()).toEqual({ windows: 2, refused: 1, overflowHits: 4 });
  });

  test("a full WindowTable frees only empty windows, as soon as they are empty", () => {
    const table = new WindowTable(3, 2);
    table.take("a", 0);
    table.take("b", 1_000);
    table.take("a", 2_000);
    expect(table.take("c", 61_999)).toMatchObject({ remaining: 2 });
    expect(table.stats().overflowHits).toBe(1);
    expect(table.take("d", 62_000)).toMatchObject({ remaining: 1 });
    expect(table.stats()).toMatchObject({ windows: 2, overflowHits: 1 });
    expect(table.take("a", 62_000)).toMatchObject({ remaining: 1 });
  });

  test("a full WindowTable gives no sender a second allowance when a place becomes free", () => {
    const table = new WindowTable(3, 1);
    table.take("a", 0);
    // Given: "b" has used up the shared window. When: the place of "a" becomes free.
    expect(takeMany(table, "b", { times: 9, atMs: 30_000 })).toBe(3);
    // Then: "b" is refused until its own requests have left the window, and the place stays free until then.
    expect(table.take("b", 61_000)).toMatchObject({ allowed: false, retryAfterSeconds: 30 });
    expect(table.stats().windows).toBe(0);
    expect(table.take("b", 90_999).allowed).toBe(false);
    expect(takeMany(table, "b", { times: 9, atMs: 91_000 })).toBe(3);
    expect(table.stats().windows).toBe(1);
  });

  test("a full WindowTable recovers after malformed requests filled its shared window", () => {
    const table = new WindowTable(3, 1);
    table.take("a", 0);
    for (let i = 0; i < 50; i++) table.record(`guess-${i}`, 1_000);
    // When there is room again, each guess gets its own window, and the shared window empties.
    for (let atMs = 61_000; atMs < 70_000; atMs += 500) table.record("guess", atMs);
    const { overflowHits } = table.stats();
    expect(table.take("c", 131_000)).toMatchObject({ allowed: true, remaining: 2 });
    expect(table.stats()).toMatchObject({ windows: 1, overflowHits });
  });
});

describe("a flood", () => {
  test("a million addresses get quick answers, use bounded memory, and leave nothing behind", async () => {
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "flood.ts")], { stderr: "inherit" });
    const { cpuMs, slowestMs, windows, grownBytes, customer, windowsLeft } = await child.stdout.json();
    expect(cpuMs).toBeLessThan(5_000);
    expect(slowestMs).toBeLessThan(250);
    expect(windows).toBe(20_000);
    expect(grownBytes).toBeLessThan(60e6);
    expect(customer).toMatchObject({ allowed: true, remaining: 8 });
    expect(windowsLeft).toBe(1);
  });

  test("a window that is used every second for hours holds no more than its minute", () => {
    const table = new WindowTable(1000, 1);
    for (let second = 0; second < 20_000; second++) {
      const { remaining } = table.take("a", second * 1000);
      expect(remaining).toBe(1000 - Math.min(second + 1, 61));
    }
  });
});

test("peek() returns the state of the window, and counts nothing", () => {
  const table = new WindowTable(2, 10);
  expect(table.peek("a", 0)).toMatchObject({ allowed: true, limit: 2, remaining: 2, resetAfterMs: 0 });
  table.take("a", 0);
  for (let times = 0; times < 5; times++) expect(table.peek("a", 0)).toMatchObject({ remaining: 1 });
  table.take("a", 0);
  expect(table.peek("a", 1_000)).toMatchObject({ allowed: false, remaining: 0, resetAfterMs: 60_000 });
  expect(table.peek("a", 500_000)).toMatchObject({ allowed: true, remaining: 2, resetAfterMs: 0 });
  expect(new WindowTable(0, 10).peek("a", 0)).toMatchObject({ allowed: true, limit: 0 });
});
