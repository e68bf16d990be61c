/**
 * The keys of a benchmark: the same in every process that is told their numbers, so that nobody has to hand a
 * million of them on. The database that knows them lives as long as a run does.
 */
import { hash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { ImportLine } from "../../src/keys/mod.ts";
import { TIERS } from "../../src/licensing/mod.ts";

/** The key of that number: random to whoever looks at it, as real ones are. */
export function benchKey(number: number): string {
  return `svc_live_${hash("sha256", `benchmark key ${number}`, "hex").slice(0, 48)}`;
}

/** Writes the file that `keys import` reads: as many accounts as keys, the tiers in turn. */
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

/** Which keys a load uses: `count` of them, from `first` in steps. */
export interface KeySet {
  readonly first: number;
  readonly step: number;
  readonly count: number;
}

export type KeyOrder =
  /** One after the other, and again from the first. */
  | { readonly kind: "in turn" }
  /**
   * By chance, the key of rank r with a weight of 1/r (Zipf's law): a few have most of the requests. That many
   * are drawn, the same for the same seed, and used in turn.
   */
  | { readonly kind: "zipf"; readonly draws: number; readonly seed: number };

/** The numbers of the keys in the order in which a load uses them. */
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

/** The index of the first value that is not below; `values` ascend and the last one is not. */
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

/** Numbers from 0 to below 1, the same for the same seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
