/** Renders a count for people: `1,000`. */
export function renderCount(count: number): string {
  return count.toLocaleString("en-US");
}
