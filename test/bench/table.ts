/** Renders results for people: ratios first, each with its target next to it. */
import type { Change } from "./comparison.ts";
import { isFailed, isMet, type Result, type Target, type Unit } from "./row.ts";

const HEADING = ["ROW", "FIGURE", "TARGET", "MET", "ROUNDS"] as const;

/** Sorts ratios first, then absolute figures, then failed rows; otherwise keeps the order. */
export function inOrder(results: readonly Result[]): Result[] {
  const rank = (result: Result) => (isFailed(result) ? 2 : result.unit === "×" ? 0 : 1);
  return results.toSorted((a, b) => rank(a) - rank(b));
}

/** Renders one line per row, in columns, and below it the note on the measurement. */
export function renderTable(results: readonly Result[]): string {
  const rows = inOrder(results);
  const cells = rows.map((result) => [result.name, ...figuresOf(result)]);
  const widths = HEADING.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  const lines = [line(HEADING)];
  for (const [index, result] of rows.entries()) {
    lines.push(line(cells[index] ?? []));
    lines.push(`    ${isFailed(result) ? `NOT MEASURED: ${result.failure}` : result.note}`);
  }
  return `${lines.join("\n")}\n`;
}

/** Returns figure, target, verdict and rounds of a row, as text. */
export function figuresOf(result: Result): string[] {
  const met = isMet(result);
  const verdict = met === undefined ? "-" : met ? "yes" : "NO";
  if (isFailed(result)) return ["-", "-", verdict, "-"];
  const { unit, rounds } = result;
  const least = Math.min(...rounds);
  const most = Math.max(...rounds);
  const spread =
    rounds.length > 1 ? `${rounds.length}: ${toText(least, unit)} to ${toText(most, unit)}` : "1";
  return [toText(result.figure, unit), renderTarget(result.target, unit), verdict, spread];
}

function renderTarget(target: Target | undefined, unit: Unit): string {
  return target === undefined ? "-" : `${target.bound} ${toText(target.value, unit)}`;
}

/** Renders a figure with its unit and only its significant digits. */
export function toText(value: number, unit: Unit): string {
  switch (unit) {
    case "×":
      return `${value.toFixed(value < 10 ? 2 : 1)} ×`;
    case "/s":
      return `${toCount(value)}/s`;
    case "MB":
      return `${value.toFixed(1)} MB`;
    case "s":
      return `${value.toFixed(2)} s`;
    case "ms":
    case "µs":
      return `${value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2)} ${unit}`;
  }
}

/** Renders a whole number with commas. */
export function toCount(value: number): string {
  return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Renders how the ratios changed, and marks drops. */
export function renderComparison(changes: readonly Change[], before: string): string {
  const lines = [`Against ${before}:`];
  if (changes.length === 0) lines.push("  no ratio is in both");
  for (const { name, before: was, now, loss, isDrop } of changes) {
    const percent = `${(Math.abs(loss) * 100).toFixed(0)} % ${loss > 0 ? "worse" : "better"}`;
    lines.push(
      `  ${isDrop ? "DROP" : "    "}  ${name}: ${was.toFixed(2)} × before, ${now.toFixed(2)} × now, ${percent}`,
    );
  }
  return `${lines.join("\n")}\n`;
}

/** Returns the names of the rows that miss their target. */
export function namesOfShort(results: readonly Result[]): string[] {
  return results.filter((result) => isMet(result) === false).map(({ name }) => name);
}
