/** Alters a text in every way that happens to a file: single bits, other bytes, cuts, doubles, and parts that change places. */

/** A small generator with a seed (mulberry32), so that a failure can be repeated. */
export function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Yields so many texts that differ from the given one in more than the end of its line. */
export function* alterations(
  text: string,
  { seed, count }: { readonly seed: number; readonly count: number },
): Generator<string, undefined> {
  const random = createRandom(seed);
  const bytes = Buffer.from(text);
  for (let made = 0; made < count; ) {
    const altered = alter(bytes, random).toString();
    if (altered.replace(/\r?\n$/, "") === text.replace(/\n$/, "")) continue;
    made++;
    yield altered;
  }
}

function alter(bytes: Buffer, random: (below: number) => number): Buffer {
  const at = random(bytes.length);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (random(7)) {
    case 0: {
      const copy = Buffer.from(bytes);
      copy[at] = (copy[at] ?? 0) ^ (1 << random(8));
      return copy;
    }
    case 1: {
      const copy = Buffer.from(bytes);
      copy[at] = random(256);
      return copy;
    }
    case 2:
      return Buffer.concat([before, after.subarray(1 + random(8))]);
    case 3:
      return Buffer.concat([before, Buffer.of(random(256)), after]);
    case 4:
      return Buffer.concat([before, Buffer.from("-_.=+/A\n \r"[random(10)] ?? ""), after]);
    case 5:
      return Buffer.concat([after, before]);
    default: {
      const from = random(bytes.length);
      return Buffer.concat([before, bytes.subarray(from, from + 1 + random(64)), after]);
    }
  }
}
