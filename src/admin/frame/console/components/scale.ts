/** Round numbers and few labels for the axes of charts. */

/** The most steps of a scale. */
const STEPS = 4;

/**
 * Returns the numbers of an axis from 0 to at least `max`, at most five. Their step is 1, 2 or 5, or one of those with
 * zeros.
 */
export function roundTicks(max: number): readonly number[] {
  let step = 1;
  // 1, 2, 5, 10, 20, 50, …
  while (step * STEPS < max) step *= String(step).startsWith("2") ? 2.5 : 2;
  return Array.from({ length: Math.max(1, Math.ceil(max / step)) + 1 }, (_, index) => index * step);
}

/** The widths of a chart for which its style shows labels, with the pixels that are certainly there. */
const WIDTHS = { narrow: 200, middle: 560, wide: 860 };
const PIXELS_OF_A_LETTER = 7;
const GAP_PIXELS = 12;

/**
 * Returns for each column the widths of a chart at which it has room for its label. The last column always has a label, and
 * from it on back those at equal steps.
 */
export function widthsOfLabels(labels: readonly string[]): readonly string[][] {
  const widths = labels.map((): string[] => []);
  const letters = Math.max(1, ...labels.map((label) => label.length));
  for (const [name, pixels] of Object.entries(WIDTHS)) {
    const room = Math.max(1, Math.floor((pixels + GAP_PIXELS) / (letters * PIXELS_OF_A_LETTER + GAP_PIXELS)));
    const step = Math.max(1, Math.ceil(labels.length / room));
    for (let index = labels.length - 1; index >= 0; index -= step) widths[index]?.push(name);
  }
  return widths;
}

/** Renders a number of an axis in few characters: `500`, `20K`, `1.5M`; with three digits `1.52M`. */
export function toShort(value: number, digits?: number): string {
  return value < 10_000
    ? value.toLocaleString("en-US")
    : value.toLocaleString("en-US", {
        notation: "compact",
        ...(digits && { maximumSignificantDigits: digits }),
      });
}
