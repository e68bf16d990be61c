/**
 * 100,000 random sequences of commands against a naive reference, and a few that are long enough for a window to
 * turn over many times; as many again against a table that is too small. `HOSTILE_SEED` sets their seed.
 */
import { describe, setDefaultTimeout, test } from "bun:test";
import { checkCrowdedSequences, checkSequences } from "./window_table_model.ts";

setDefaultTimeout(30_000);

const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));

for (const [sequences, length] of [
  [100_000, 40],
  [200, 1_000],
] as const) {
  describe(`In ${sequences} sequences of up to ${length} commands`, () => {
    test("WindowTable answers as the naive reference does", () => {
      checkSequences({ seed, sequences, length });
    }, 120_000);

    test("WindowTable with too few places never accepts more than the limit of one sender", () => {
      checkCrowdedSequences({ seed, sequences, length });
    }, 120_000);
  });
}
