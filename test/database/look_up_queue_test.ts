import { describe, expect, test } from "bun:test";
import { createLookUpQueue, DatabaseUnavailable } from "../../src/database/mod.ts";
import type { KeyRecord } from "../../src/licensing/keys/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { keyRecord } from "../support/records.ts";
import { shortest } from "../support/shortest.ts";
import { until } from "../support/until.ts";

describe("createLookUpQueue()", () => {
  test("lookUp() combines waiting look-ups into one batch of distinct keys", async () => {
    const { queue, batches } = start();
    const records = await Promise.all(["a", "b", "a"].map((hash) => queue.lookUp(hash, "::1")));
    expect(batches).toEqual([["a", "b"]]);
    expect(records.map((record) => record?.accountUuid)).toEqual(["a", "b", "a"]);
  });

  test("lookUp() resolves to null for a key that was not found", async () => {
    const { queue } = start();
    expect(await queue.lookUp("unknown", "::1")).toBeNull();
  });

  test("lookUp() rejects a whole batch with the error of its statement, and continues afterwards", async () => {
    const { queue, failNext } = start();
    failNext();
    const together = await Promise.allSettled(["a", "b"].map((hash) => queue.lookUp(hash, "::1")));
    expect(together.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await queue.lookUp("a", "::1")).toMatchObject({ accountUuid: "a" });
  });

  test("lookUp() of one address waits for at most one batch of another address's flood", async () => {
    const { queue, batches, waiters, release } = start({ held: true });
    const flood = Array.from({ length: 2_000 }, (_, i) => queue.lookUp(`flood ${i}`, "198.51.100.1"));
    await waiters(2);
    const customer = queue.lookUp("customer", "192.0.2.1");
    release();
    await waiters(3);
    expect(batches[2]).toContain("customer");
    release();
    expect(await customer).toMatchObject({ accountUuid: "customer" });
    await until(() => {
      release();
      return queue.stats().waiting === 0;
    });
    release();
    await Promise.all(flood);
    expect(batches.every((batch) => batch.length <= 500)).toBe(true);
  });

  test("lookUp() takes look-ups from each address in turn", async () => {
    const { queue, batches, waiters, release } = start({ held: true });
    const all = ["198.51.100.1", "198.51.100.2"].flatMap((address) =>
      Array.from({ length: 600 }, (_, i) => queue.lookUp(`${address} ${i}`, address)),
    );
    await waiters(2);
    for (const batch of batches) {
      expect(batch.filter((hash) => hash.startsWith("198.51.100.2"))).toHaveLength(250);
    }
    await until(() => {
      release();
      return queue.stats().waiting === 0 && batches.length >= 3;
    });
    release();
    await Promise.all(all);
  });

  test("lookUp() turns away an address with 2,000 waiting look-ups, and no other address", async () => {
    const { queue, release } = start();
    const first = Array.from({ length: 2_000 }, (_, i) => queue.lookUp(`a ${i}`, "198.51.100.1"));
    expect(await failureOf(queue.lookUp("one more", "198.51.100.1"))).toBeInstanceOf(DatabaseUnavailable);
    expect(await queue.lookUp("customer", "192.0.2.1")).toMatchObject({ accountUuid: "customer" });
    release();
    await Promise.all(first);
    expect(queue.stats()).toMatchObject({ waiting: 0, turnedAway: 1 });
  });

  test("lookUp() turns away every address beyond 20,000 look-ups", async () => {
    const { queue } = start();
    const all = Array.from({ length: 20_100 }, (_, i) => queue.lookUp(`key ${i}`, `address ${i % 50}`));
    const settled = await Promise.allSettled(all);
    expect(settled.filter(({ status }) => status === "rejected")).toHaveLength(100);
  });

  test("lookUp() turns away a look-up that has waited a second", async () => {
    const { queue, clock, waiters, release } = start({ held: true });
    const flood = Array.from({ length: 1_000 }, (_, i) => queue.lookUp(`flood ${i}`, "198.51.100.1"));
    await waiters(2);
    const late = queue.lookUp("late", "192.0.2.1");
    clock.advance(1_001);
    release();
    expect(await failureOf(late)).toBeInstanceOf(DatabaseUnavailable);
    await Promise.allSettled(flood);
  });
});

describe("createLookUpQueue() with gathered look-ups", () => {
  const gathered = { isGathered: true };

  test("lookUp() sends at most ten statements a second, whether look-ups come one by one or together", async () => {
    const { queue, batches } = start();
    const beganMs = performance.now();
    for (let i = 0; i < 5; i++) {
      await Promise.all([1, 2, 3].map((j) => queue.lookUp(`key ${i} ${j}`, "198.51.100.1", gathered)));
    }
    expect(performance.now() - beganMs).toBeGreaterThan(395);
    expect(batches.map(({ length }) => length)).toEqual([3, 3, 3, 3, 3]);
  });

  test("lookUp() answers the first look-up at once, and the others with the next batch", async () => {
    const measure = async () => {
      const { queue, batches } = start();
      const beganMs = performance.now();
      const first = queue.lookUp("a", "198.51.100.1", gathered);
      await new Promise((resolve) => setImmediate(resolve));
      expect(batches).toEqual([["a"]]);
      expect(await first).toMatchObject({ accountUuid: "a" });
      const found = await Promise.all(["b", "unknown"].map((hash) => queue.lookUp(hash, "::1", gathered)));
      expect(found).toMatchObject([{ accountUuid: "b" }, null]);
      expect(batches).toEqual([["a"], ["b", "unknown"]]);
      return performance.now() - beganMs;
    };
    expect(await shortest(400, measure)).toBeWithin(95, 400);
  });

  test("lookUp() does not delay look-ups that are not gathered", async () => {
    const { queue, batches } = start();
    await queue.lookUp("first", "198.51.100.1", gathered);
    const flood = Array.from({ length: 2_000 }, (_, i) => queue.lookUp(`${i}`, "198.51.100.1", gathered));
    expect(await queue.lookUp("customer", "192.0.2.1")).toMatchObject({ accountUuid: "customer" });
    expect(await queue.lookUp("neighbour", "198.51.100.1")).toMatchObject({ accountUuid: "neighbour" });
    expect(batches).toEqual([["first"], ["customer"], ["neighbour"]]);
    await Promise.all(flood);
  });

  test("lookUp() takes look-ups from each address in turn, 2,000 in a statement", async () => {
    const { queue, batches } = start();
    await queue.lookUp("first", "198.51.100.9", gathered);
    const all = ["198.51.100.1", "198.51.100.2"].flatMap((address) =>
      Array.from({ length: 1_500 }, (_, i) => queue.lookUp(`${address} ${i}`, address, gathered)),
    );
    const late = queue.lookUp("late", "192.0.2.1", gathered);
    await late;
    expect(batches.map(({ length }) => length)).toEqual([1, 2_000]);
    await Promise.all(all);
    expect(batches.map(({ length }) => length)).toEqual([1, 2_000, 1_001]);
  });

  test("lookUp() turns away an address with 2,000 gathered look-ups, and leaves room for other look-ups", async () => {
    const { queue } = start();
    const flood = Array.from({ length: 25_000 }, (_, i) =>
      queue.lookUp(`flood ${i}`, `address ${i % 12}`, gathered),
    );
    const own = Array.from({ length: 2_000 }, (_, i) => queue.lookUp(`own ${i}`, "own", gathered));
    const settled = Promise.allSettled([...flood, ...own]);
    const customer = queue.lookUp("customer", "own");
    expect(queue.stats()).toMatchObject({ waiting: 20_001, turnedAway: 7_000 });
    expect(await customer).toMatchObject({ accountUuid: "customer" });
    await settled;
    expect(queue.stats().waiting).toBe(0);
  });

  test("lookUp() runs one statement of gathered look-ups at a time, however long it takes", async () => {
    const { queue, batches, waiters, release } = start({ held: true });
    const first = queue.lookUp("a", "::1", gathered);
    await waiters(1);
    const second = queue.lookUp("b", "::1", gathered);
    // A second statement would begin within this time, and must not.
    await Bun.sleep(250);
    expect(batches).toEqual([["a"]]);
    release();
    await first;
    await waiters(2);
    release();
    expect(await second).toMatchObject({ accountUuid: "b" });
  });
});

function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

function start({ held = false } = {}) {
  const clock = createTestClock(undefined, { stands: true });
  const batches: string[][] = [];
  const holding: (() => void)[] = [];
  let fails = false;
  const queue = createLookUpQueue({
    clock,
    async find(hashes) {
      batches.push([...hashes]);
      if (held) await new Promise<void>((resolve) => holding.push(resolve));
      if (fails) {
        fails = false;
        throw new Error("made to fail");
      }
      const known = hashes.filter((hash) => hash !== "unknown");
      return new Map<string, KeyRecord>(known.map((hash) => [hash, keyRecord({ accountUuid: hash })]));
    },
  });
  return {
    queue,
    clock,
    batches,
    failNext() {
      fails = true;
    },
    /** Releases the batches that are held now. */
    release() {
      for (const resolve of holding.splice(0)) resolve();
    },
    /** Waits until this many batches have begun. */
    async waiters(count: number) {
      await until(() => batches.length >= count);
    },
  };
}
