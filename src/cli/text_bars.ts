/** Bar charts for a terminal: a table gets one more column, whose bars show the numbers of another column. */

/** The longest bar: short, so that the table with its bars fits in 80 columns. */
const MAX_WIDTH = 40;
const MIN_WIDTH = 10;
/** Bars that fill one to eight eighths of a character's width. */
const EIGHTHS = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"] as const;

/**
 * Returns a table's rows with a column `chart` of bars for the numbers of one column. Without a terminal, or if it is
 * too narrow for bars, returns the rows as they are.
 */
export function withBars<Row extends Readonly<Record<string, unknown>>>(
  rows: readonly Row[],
  { of, columns }: { readonly of: keyof Row & string; readonly columns: number | undefined },
): readonly (Row & { readonly chart?: string })[] {
  if (columns === undefined) return rows;
  const width = Math.min(MAX_WIDTH, columns - widthOf(rows));
  if (width < MIN_WIDTH) return rows;
  const numbers = rows.map((row) => Number(row[of]));
  const most = Math.max(...numbers);
  return rows.map((row, index) => ({ ...row, chart: renderBar((numbers[index] ?? 0) / most, width) }));
}

/** Renders a share of the longest bar. A share above 0 is visible. */
export function renderBar(share: number, width: number): string {
  if (!(share > 0)) return "";
  const eighths = Math.max(1, Math.round(share * width * 8));
  const rest = EIGHTHS[(eighths % 8) - 1] ?? "";
  return "█".repeat(Math.floor(eighths / 8)) + rest;
}

/** Returns the width of a table with a gap of two characters after each column, as `printTable` prints it. */
function widthOf(rows: readonly Readonly<Record<string, unknown>>[]): number {
  const [first = {}] = rows;
  return Object.keys(first)
    .map((name) => Math.max(name.length, ...rows.map((row) => String(row[name] ?? "-").length)))
    .reduce((sum, width) => sum + width + 2, 0);
}
