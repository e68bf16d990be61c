/** Compares the table with a naive reference as `window_table_model_test.ts` does, on many more sequences. */
import { describe, test } from "bun:test";
import { EXTENT } from "../../evidence/extent.ts";
import { checkCrowdedSequences, checkSequences } from "./window_table_model.ts";

const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));

for (const [sequences, length] of [
  [EXTENT.windowSequences, 40],
  [1_000, 1_000],
] as const) {
  describe(`In ${sequences} sequences of up to ${length} commands`, () => {
    test("WindowTable answers like the naive reference", () => {
      checkSequences({ seed, sequences, length });
    });

    test("WindowTable with too few places never accepts more than the limit from one sender", () => {
      checkCrowdedSequences({ seed, sequences, length });
    });
  });
}
