import { expect, test } from "bun:test";
import { repeat } from "../../src/base/clock.ts";

test("repeat() repeats the work after each pause that the work returns, and never runs it twice at once", async () => {
  const ended = Promise.withResolvers<void>();
  let running = 0;
  let most = 0;
  let count = 0;
  repeat(0, async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 2));
    running--;
    if (++count < 3) return 0;
    ended.resolve();
    return undefined;
  });
  await ended.promise;
  await new Promise((resolve) => setTimeout(resolve, 20)); // A fourth run would begin within this time.
  expect({ count, most }).toEqual({ count: 3, most: 1 });
});

test("repeat() runs no more work after it is stopped, whether the work waits or runs", async () => {
  const done: string[] = [];
  const waiting = repeat(1, async () => done.push("waiting"));
  waiting.stop();
  const begun = Promise.withResolvers<void>();
  const running = repeat(0, async () => {
    begun.resolve();
    await new Promise((resolve) => setTimeout(resolve, 2));
    return done.push("running");
  });
  await begun.promise;
  running.stop();
  await new Promise((resolve) => setTimeout(resolve, 20)); // Either work would continue within this time.
  expect(done).toEqual(["running"]);
});
