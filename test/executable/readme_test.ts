/** The README's console blocks, run by the executable in an empty folder. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { createPlace, type Place } from "../executable.ts";
import { mask, readConsoleSteps, readme, runConsoleSteps } from "../readme_console.ts";
import { isBuilt } from "./installed.ts";

const TEST_LIMIT_MS = 60_000;

describe.skipIf(!isBuilt)("README.md", () => {
  let place: Place;
  beforeAll(() => {
    place = createPlace();
  });
  afterAll(() => place.remove());

  test(
    "shows what a newcomer sees: every command, in order, answers as printed",
    async () => {
      const dataDir = join(place.folder, "claviger-data");
      const { address } = await place.serve(dataDir, { args: ["--demo"] });
      const steps = readConsoleSteps(readme);
      const env = { PATH: "/usr/bin:/bin", CLAVIGER_DATA_DIR: dataDir };
      const outputs = await runConsoleSteps(steps, { cwd: place.folder, env, address });
      expect(steps.length).toBeGreaterThan(10);
      for (const [index, { command, output }] of steps.entries()) {
        expect({ command, output: mask(outputs[index] ?? "") }).toEqual({ command, output: mask(output) });
      }
    },
    TEST_LIMIT_MS,
  );
});
