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
 * Returns the first request of every 60 s in which more requests were certainly counted than allowed: `limit`, and once
 * more for each time that the windows were emptied within these 60 s.
 */
export function tooMany(
  admitted: readonly Admitted[],
  { limit, emptied = [] }: { readonly limit: number; readonly emptied?: readonly Emptied[] },
): Admitted[] {
  const bySending = admitted.toSorted((a, b) => a.sentMs - b.sentMs);
  return bySending.filter(({ sentMs }, index) => {
    const untilMs = sentMs + WINDOW_MS;
    const counted = bySending.slice(index).filter(({ answeredMs }) => answeredMs < untilMs).length;
    const times = emptied.filter(({ fromMs, toMs }) => fromMs < untilMs && toMs > sentMs).length;
    return counted > limit * (1 + times);
  });
}
