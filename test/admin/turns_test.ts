import { expect, test } from "bun:test";
import { createTurns } from "../../src/admin/frame/turns.ts";

test("createTurns() runs so many at once for each sender, the others in their order, and turns the rest away", async () => {
  const takeTurn = createTurns({ atOnce: 2, mostWaiting: 2, maxWaitMs: 60_000 });
  const begun: string[] = [];
  const gate = Promise.withResolvers<void>();
  const take = (sender: string, name: string) =>
    takeTurn(sender, async () => {
      begun.push(name);
      await gate.promise;
    });
  const all = ["1", "2", "3", "4", "5"].map((name) => take("a", name));
  expect(await all[4]).toBe(false);
  const other = take("b", "other");
  expect(begun).toEqual(["1", "2", "other"]);
  gate.resolve();
  expect(await Promise.all([...all, other])).toEqual([true, true, true, true, false, true]);
  expect(begun).toEqual(["1", "2", "other", "3", "4"]);
});

test("createTurns() turns work away that has waited too long, and gives its turn to the next", async () => {
  const takeTurn = createTurns({ atOnce: 1, mostWaiting: 2, maxWaitMs: 20 });
  const gate = Promise.withResolvers<void>();
  const first = takeTurn("a", () => gate.promise);
  expect(await takeTurn("a", () => Promise.reject(new Error("has no turn")))).toBe(false);
  gate.resolve();
  expect(await first).toBe(true);
  await expect(takeTurn("a", () => Promise.reject(new Error("fails")))).rejects.toThrow("fails");
  expect(await takeTurn("a", () => Promise.resolve())).toBe(true);
});
