/** Renders a count for people: `1,000`. */
export function renderCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** Writes a number with its noun: `1 key`, `2,000 keys`. */
export function counted(number: number, one: string): string {
  return `${renderCount(number)} ${one}${number === 1 ? "" : "s"}`;
}
