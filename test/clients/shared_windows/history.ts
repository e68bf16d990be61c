/** Judges what clients saw of the windows that several processes share. */

/** An admitted request. The database counted it between these two times of this machine's clock. */
export interface Admitted {
  readonly sentMs: number;
  readonly answeredMs: number;
}

/** A time in which the windows were emptied, by a crash of PostgreSQL or by a failover. */
export interface Emptied {
  readonly fromMs: number;
  readonly toMs: number;
}

const WINDOW_MS = 60_000;

/**
 * Returns each request that begins 60 s with certainly too many admitted requests: more than `limit` before the first
 * time that the windows were emptied, or more than `limit` and once more `limit` for each such time.
 */
export function tooMany(
  admitted: readonly Admitted[],
  { limit, emptied = [] }: { readonly limit: number; readonly emptied?: readonly Emptied[] },
): Admitted[] {
  const bySending = admitted.toSorted((a, b) => a.sentMs - b.sentMs);
  return bySending.filter(({ sentMs }, index) => {
    const countedBefore = (ms: number) =>
      bySending.slice(index).filter(({ answeredMs }) => answeredMs < ms).length;
    const untilMs = sentMs + WINDOW_MS;
    const during = emptied.filter(({ fromMs, toMs }) => fromMs < untilMs && toMs > sentMs);
    if (countedBefore(untilMs) > limit * (1 + during.length)) return true;
    const [next] = during.map(({ fromMs }) => fromMs).sort((a, b) => a - b);
    return next !== undefined && next > sentMs && countedBefore(next) > limit;
  });
}
