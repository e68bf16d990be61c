/**
 * Finds the name that is most similar to a misspelt name; undefined if no name is similar.
 *
 * A name is similar if at most a third of its letters differ. `toCompared` removes the part that all names share.
 */
export function findNearest(
  given: string,
  names: readonly string[],
  toCompared: (name: string) => string = (name) => name,
): string | undefined {
  const compared = toCompared(given).slice(0, 64);
  let nearest: string | undefined;
  let least = Math.max(1, Math.floor(compared.length / 3)) + 1;
  for (const name of names) {
    const edits = countEdits(compared, toCompared(name));
    if (edits < least) [nearest, least] = [name, edits];
  }
  return nearest;
}

/** Counts the edits between two names: letters inserted, removed, replaced, or exchanged with the next letter. */
function countEdits(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const next = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const isExchanged = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      next[column] = Math.min(
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
        isExchanged ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [beforeLast, last] = [last, next];
  }
  return last[to.length] ?? 0;
}
