/**
 * Compares the table with a naive reference, on 8,000 random sequences of commands and on a few that are so long
 * that a window turns over many times. As many run on a table that is too small. `HOSTILE_SEED` sets their seed, and
 * `window_table_model_proof.ts` runs many more.
 */
import { describe, test } from "bun:test";
import { checkCrowdedSequences, checkSequences } from "./window_table_model.ts";

const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));

for (const [sequences, length] of [
  [8_000, 40],
  [80, 1_000],
] as const) {
  describe(`In ${sequences} sequences of up to ${length} commands`, () => {
    test("WindowTable answers like the naive reference", () => {
      checkSequences({ seed, sequences, length });
    }, 120_000);

    test("WindowTable with too few places never accepts more than the limit from one sender", () => {
      checkCrowdedSequences({ seed, sequences, length });
    }, 120_000);
  });
}
