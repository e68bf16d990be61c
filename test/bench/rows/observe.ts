/**
 * Measures what it costs a request that its time is counted in a histogram, for answers from the cache and for slow ones,
 * relative to one reading of the clock, of which each request needs two. A slow answer passes more bounds.
 */
import { Histogram } from "../../../src/base/histogram.ts";
import { BOUNDS_SECONDS } from "../../../src/usage/latency/mod.ts";
import { toRow } from "../row.ts";
import type { RowGroup } from "../row_group.ts";
import { median, ratios } from "../statistics.ts";

const FORMS = [
  { name: "observe, answer from the cache", seconds: 0.0002 },
  { name: "observe, slow answer", seconds: 0.9 },
] as const;
const REPEATS = 5_000_000;

export const observe: RowGroup = {
  name: "observe",
  rows: FORMS.map(({ name }) => name),
  async run({ scale, say }) {
    const clock: number[] = [];
    const observed = FORMS.map(() => [] as number[]);
    const histogram = new Histogram(BOUNDS_SECONDS);
    // The first round is not counted: the code is compiled in it.
    for (let round = 0; round <= scale.rounds; round++) {
      const readNs = nsOf(() => performance.now());
      const observeNs = FORMS.map(({ seconds }) => nsOf((n) => histogram.observe(seconds + n * 1e-12)));
      if (round === 0) continue;
      clock.push(readNs);
      for (const [form, ns] of observeNs.entries()) observed[form]?.push(ns);
      say(
        `  round ${round}  the clock ${readNs.toFixed(1)} ns, ${observeNs.map((ns) => ns.toFixed(1)).join(" and ")} ns`,
      );
    }
    return FORMS.map(({ name }, form) => {
      const rounds = observed[form] ?? [];
      return toRow({
        name,
        ...{ unit: "×", better: "less" },
        rounds: ratios(rounds, clock),
        target: { bound: "at most", value: 1 },
        note: `${median(rounds).toFixed(1)} ns; reading the clock takes ${median(clock).toFixed(1)} ns`,
        details: { "observe ns": median(rounds), "clock ns": median(clock) },
      });
    });
  },
};

/** Returns how many nanoseconds one call takes. */
function nsOf(work: (n: number) => void): number {
  const began = performance.now();
  for (let n = 0; n < REPEATS; n++) work(n);
  return ((performance.now() - began) * 1e6) / REPEATS;
}
