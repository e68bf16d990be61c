/** The prepared folder of the tests of commands is the same in `make test` and in a bare `bun test`. */
import { expect, test } from "bun:test";
import { createCommandLine } from "./command_line.ts";

test("createCommandLine() prepares a database without rows, also without the sample of a run", async () => {
  const sample = process.env.TEST_SAMPLE;
  try {
    delete process.env.TEST_SAMPLE;
    for (const _ of ["made", "made before"]) {
      using line = createCommandLine({ prepared: true });
      expect(await line.json(["keys", "list"])).toEqual([]);
    }
  } finally {
    if (sample !== undefined) process.env.TEST_SAMPLE = sample;
  }
});
