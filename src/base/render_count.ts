interface Counted {
  /** A higher number means only that there are more. */
  readonly most?: number;
}

/** Renders a count for people: `1,000`, or `more than 10,000`. */
export function renderCount(count: number, { most = Number.POSITIVE_INFINITY }: Counted = {}): string {
  return count > most ? `more than ${renderCount(most)}` : count.toLocaleString("en-US");
}

/** Writes a number with its noun: `1 key`, `2,000 keys`. */
export function counted(number: number, one: string, options?: Counted): string {
  return `${renderCount(number, options)} ${one}${number === 1 ? "" : "s"}`;
}
