/**
 * The short form of `make crash-test`: one fault of each kind, under load, against the executable if a current
 * one is built, else the source on Bun. The bounds are the promises' own, 5 s for an answer and 2 s for a
 * recovery, plus the time for which the machine held up this process. The start of a database or a service has no
 * bound, since the machine's load decides how long it takes. `CRASH_TEST_SEED` sets the seed, to repeat a run with
 * the seed that it printed.
 */
import { expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { testFolder } from "../support/postgres.ts";
import { createRandom } from "../support/random.ts";
import { useFolder } from "../support/use_folder.ts";
import { SHORT_PLAN } from "./plan.ts";
import { findProgram } from "./program.ts";
import type { RoundResult } from "./round.ts";
import { runParts } from "./run_parts.ts";
import { whyNoSmallDisk } from "./small_disk.ts";

// Runs alone: it judges a time.

const LIMIT_MS = 240_000;
const seed = Number(process.env.CRASH_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
const whyNoDisk = whyNoSmallDisk(testFolder());
if (whyNoDisk !== undefined) console.error(`Skipped filling a disk: ${whyNoDisk}`);

const folder = useFolder();
chmodSync(folder, 0o755);

for (const stage of ["external", "embedded", "small_disk"] as const) {
  test.skipIf(stage === "small_disk" && whyNoDisk !== undefined)(
    `Under load every promise holds through each fault (${stage})`,
    async () => {
      console.log(`Crash test (${stage}): CRASH_TEST_SEED=${seed}`);
      const results: RoundResult[] = [];
      await runParts(
        SHORT_PLAN.filter((part) => part.stage === stage),
        {
          ...{ folder, program: findProgram(), random: createRandom(seed) },
          onRound: (_fault, result) => result && results.push(result),
        },
      );
      for (const { figures } of results) expect(figures.acknowledged).toBeGreaterThan(0);
      expect(results.length).toBeGreaterThan(0);
    },
    LIMIT_MS,
  );
}
