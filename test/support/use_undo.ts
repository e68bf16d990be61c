import { afterEach } from "bun:test";

/** Returns a list of steps that undo what a test has made. They run after the test, the newest first. */
export function useUndo(): (() => unknown)[] {
  const undo: (() => unknown)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).reverse()) await step();
  });
  return undo;
}
