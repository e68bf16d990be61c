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

test("createTurns() gives a turn back while its work pauses, and takes it again behind a full line", async () => {
  const takeTurn = createTurns({ atOnce: 1, mostWaiting: 1, maxWaitMs: 60_000 });
  const [news, gate, end] = [1, 2, 3].map(() => Promise.withResolvers<void>());
  const steps: string[] = [];
  const paused = takeTurn("a", async (pause) => {
    steps.push("asks");
    expect(await pause(async () => await news?.promise)).toBe(true);
    steps.push("is back");
    await end?.promise;
  });
  const second = takeTurn("a", async () => {
    steps.push("second");
    await gate?.promise;
  });
  const third = takeTurn("a", async () => void steps.push("third"));
  expect(await takeTurn("a", async () => {})).toBe(false);
  news?.resolve();
  await Bun.sleep(1);
  expect(steps).toEqual(["asks", "second"]);
  gate?.resolve();
  expect(await Promise.all([second, third])).toEqual([true, true]);
  await Bun.sleep(1);
  const last = takeTurn("a", async () => void steps.push("last"));
  await Bun.sleep(1);
  expect(steps).toEqual(["asks", "second", "third", "is back"]);
  end?.resolve();
  expect(await Promise.all([paused, last])).toEqual([true, true]);
  expect(steps.at(-1)).toBe("last");
});

test("createTurns() turns a paused piece away that finds no turn in time, and loses no turn by it", async () => {
  const takeTurn = createTurns({ atOnce: 1, mostWaiting: 1, maxWaitMs: 20 });
  const news = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  let isBack: boolean | undefined;
  const paused = takeTurn("a", async (pause) => {
    isBack = await pause(() => news.promise);
  });
  const other = takeTurn("a", () => gate.promise);
  news.resolve();
  await paused;
  expect(isBack).toBe(false);
  expect(await takeTurn("a", async () => {})).toBe(false);
  gate.resolve();
  await other;
  expect(await takeTurn("a", async () => {})).toBe(true);
});
