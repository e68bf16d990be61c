/**
 * The keys of a benchmark. Every process derives the same keys from their numbers, so no process has to pass a
 * million keys to another. The database with these keys exists only during a run.
 */
import { hash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { ImportLine } from "../../src/licensing/keys/mod.ts";
import { TIERS } from "../../src/licensing/mod.ts";

/** Returns the key with that number. It looks random, as real keys do. */
export function benchKey(number: number): string {
  return `svc_live_${hash("sha256", `benchmark key ${number}`, "hex").slice(0, 48)}`;
}

/** Writes the file that `keys import` reads: one account per key, with the tiers in turn. */
export async function writeImportFile(path: string, count: number): Promise<void> {
  const file = createWriteStream(path);
  for (let number = 0; number < count; number++) {
    const line: ImportLine = {
      api_key: benchKey(number),
      email: `customer-${number}@example.org`,
      name: `Customer ${number}`,
      organization: "An institute of average name",
      tier: TIERS[number % TIERS.length] ?? "free",
    };
    if (!file.write(`${JSON.stringify(line)}\n`)) await once(file, "drain");
  }
  file.end();
  await once(file, "close");
}

/** The keys that a load uses: `count` keys, from number `first` in steps of `step`. */
export interface KeySet {
  readonly first: number;
  readonly step: number;
  readonly count: number;
}

export type KeyOrder =
  /** One key after the other, and then again from the first. */
  | { readonly kind: "in turn" }
  /**
   * Random: the key of rank r has a weight of 1/r (Zipf's law), so a few keys have most of the requests. `draws` keys are
   * drawn, the same for the same seed, and used in turn.
   */
  | { readonly kind: "zipf"; readonly draws: number; readonly seed: number };

/** Yields the numbers of the keys in the order in which a load uses them. */
export function* keyNumbers(keys: KeySet, order: KeyOrder): Generator<number> {
  const toNumber = (index: number) => keys.first + index * keys.step;
  if (order.kind === "in turn") {
    for (let index = 0; index < keys.count; index++) yield toNumber(index);
    return;
  }
  const sums = new Float64Array(keys.count);
  let sum = 0;
  for (let rank = 1; rank <= keys.count; rank++) {
    sum += 1 / rank;
    sums[rank - 1] = sum;
  }
  const random = createRandom(order.seed);
  for (let draw = 0; draw < order.draws; draw++) yield toNumber(lowerBound(sums, random() * sum));
}

/**
 * Returns the index of the first value that is not below `wanted`; `values` ascend, and the last one is not
 * below.
 */
function lowerBound(values: Float64Array, wanted: number): number {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns a generator of numbers from 0 to below 1, the same for the same seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
