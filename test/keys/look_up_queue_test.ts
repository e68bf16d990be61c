import { describe, expect, test } from "bun:test";
import { DatabaseUnavailable } from "../../src/database/mod.ts";
import { createLookUpQueue } from "../../src/keys/look_up_queue.ts";
import type { KeyRecord } from "../../src/keys/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { keyRecord } from "../support/records.ts";

describe("createLookUpQueue()", () => {
  test("lookUp() joins what waits together in one batch of distinct keys", async () => {
    const { queue, batches } = start();
    const records = await Promise.all(["a", "b", "a"].map((hash) => queue.lookUp(hash, "::1")));
    expect(batches).toEqual([["a", "b"]]);
    expect(records.map((record) => record?.accountUuid)).toEqual(["a", "b", "a"]);
  });

  test("lookUp() resolves to null for a key that was not found", async () => {
    const { queue } = start();
    expect(await queue.lookUp("unknown", "::1")).toBeNull();
  });

  test("lookUp() rejects a whole batch as its statement does, and goes on after it", async () => {
    const { queue, failNext } = start();
    failNext();
    const together = await Promise.allSettled(["a", "b"].map((hash) => queue.lookUp(hash, "::1")));
    expect(together.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await queue.lookUp("a", "::1")).toMatchObject({ accountUuid: "a" });
  });

  test("lookUp() of one address waits for no more than a batch of another's flood", async () => {
    const { queue, batches, waiters, release } = start({ held: true });
    const flood = Array.from({ length: 2_000 }, (_, i) => queue.lookUp(`flood ${i}`, "198.51.100.1"));
    await waiters(2);
    const customer = queue.lookUp("customer", "192.0.2.1");
    release();
    await waiters(3);
    expect(batches[2]).toContain("customer");
    release();
    expect(await customer).toMatchObject({ accountUuid: "customer" });
    while (queue.stats().waiting > 0) {
      release();
      await Bun.sleep(1);
    }
    release();
    await Promise.all(flood);
    expect(batches.every((batch) => batch.length <= 500)).toBe(true);
  });

  test("lookUp() takes from each address in turn", async () => {
    const { queue, batches, waiters, release } = start({ held: true });
    const all = ["198.51.100.1", "198.51.100.2"].flatMap((address) =>
      Array.from({ length: 600 }, (_, i) => queue.lookUp(`${address} ${i}`, address)),
    );
    await waiters(2);
    for (const batch of batches) {
      expect(batch.filter((hash) => hash.startsWith("198.51.100.2"))).toHaveLength(250);
    }
    while (queue.stats().waiting > 0 || batches.length < 3) {
      release();
      await Bun.sleep(1);
    }
    release();
    await Promise.all(all);
  });

  test("lookUp() turns an address away that has 2,000 waiting, and nobody else", async () => {
    const { queue, release } = start();
    const first = Array.from({ length: 2_000 }, (_, i) => queue.lookUp(`a ${i}`, "198.51.100.1"));
    expect(await failureOf(queue.lookUp("one more", "198.51.100.1"))).toBeInstanceOf(DatabaseUnavailable);
    expect(await queue.lookUp("customer", "192.0.2.1")).toMatchObject({ accountUuid: "customer" });
    release();
    await Promise.all(first);
    expect(queue.stats()).toMatchObject({ waiting: 0, turnedAway: 1 });
  });

  test("lookUp() turns everybody away beyond 20,000", async () => {
    const { queue } = start();
    const all = Array.from({ length: 20_100 }, (_, i) => queue.lookUp(`key ${i}`, `address ${i % 50}`));
    const settled = await Promise.allSettled(all);
    expect(settled.filter(({ status }) => status === "rejected")).toHaveLength(100);
  });

  test("lookUp() turns away who has waited a second", async () => {
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

function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

function start({ held = false } = {}) {
  const clock = createTestClock();
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
    /** Lets the batches go that are held now. */
    release() {
      for (const resolve of holding.splice(0)) resolve();
    },
    /** Until so many batches were begun. */
    async waiters(count: number) {
      for (let i = 0; i < 100 && batches.length < count; i++) await Bun.sleep(1);
      expect(batches.length).toBeGreaterThanOrEqual(count);
    },
  };
}
