/** Renders the lines of comma-separated values. Source: RFC 4180. */

/** Renders one line. No cell is a formula for a spreadsheet. */
export function toCsvLine(cells: readonly (string | number)[]): string {
  return `${cells.map(toCell).join(",")}\r\n`;
}

function toCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  // An apostrophe makes text of a cell that a spreadsheet would take for a formula. Some spreadsheets skip blanks and
  // controls before the sign, and accept its wide and small forms. U+2212 is the minus sign of mathematics.
  const text = /^[\s\p{C}=+\-@\u2212]/u.test(value.normalize("NFKC")) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
