/** Renders and reads the lines of comma-separated values. Source: RFC 4180. */

type Cell = string | number | boolean;

/** Renders one line. No cell is a formula for a spreadsheet. */
function toCsvLine(cells: readonly Cell[]): string {
  return `${cells.map(toCell).join(",")}\r\n`;
}

/**
 * Renders pages of rows, one text for each page. The heading comes with the first page, so a list that cannot be read
 * has no text at all.
 */
export async function* renderCsv<Row, Column extends string>(
  pages: Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>,
  { columns, toCells }: CsvForm<Row, Column>,
): AsyncGenerator<string, undefined> {
  let heading = toCsvLine(columns);
  for await (const rows of pages) {
    const lines = rows.map(toCells).map((cells) => toCsvLine(columns.map((name) => cells[name] ?? "")));
    yield heading + lines.join("");
    heading = "";
  }
}

interface CsvForm<Row, Column extends string> {
  /** The first line. */
  readonly columns: readonly Column[];
  readonly toCells: (row: Row) => Readonly<Record<Column, Cell | null>>;
}

/**
 * An apostrophe makes text of a cell that a spreadsheet would take for a formula. Some spreadsheets skip blanks and controls
 * before the sign, and accept its wide and small forms. U+2212 is the minus sign of mathematics.
 */
const BEGINS_FORMULA = /^[\s\p{C}=+\-@\u2212]/u;
/** The same for the text behind a semicolon, a tab or a line break: a spreadsheet can be told to begin a cell there. */
const BEGINS_FORMULA_BEHIND = /^[\s\p{C}"]*[=+\-@\u2212]/u;

function escapeLaterPart(part: string): string {
  return BEGINS_FORMULA_BEHIND.test(part.normalize("NFKC")) ? `'${part}` : part;
}

function toCell(value: Cell): string {
  if (typeof value !== "string") return String(value);
  const [first = "", ...others] = value.split(/(?<=[;\t\r\n])/);
  const text = [
    BEGINS_FORMULA.test(first.normalize("NFKC")) ? `'${first}` : first,
    ...others.map(escapeLaterPart),
  ].join("");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A cell in quotes, in which two quotes stand for one, or a cell without any. */
const CELL = /"((?:[^"]|"")*)"|[^",]*/y;

/** Returns the cells of one line, which has no line break; undefined if a quote is open or within a cell without quotes. */
export function parseCsvLine(line: string): string[] | undefined {
  const cells: string[] = [];
  for (let at = 0; ; at++) {
    CELL.lastIndex = at;
    const [cell = "", quoted] = CELL.exec(line) ?? [];
    cells.push(quoted?.replaceAll('""', '"') ?? cell);
    at += cell.length;
    if (at === line.length) return cells;
    if (line[at] !== ",") return undefined;
  }
}
