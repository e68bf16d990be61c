/** Prints the results of commands: tables and fields for people, one JSON document for programs. */
import { styleText } from "node:util";
import { toTimestamp } from "../base/calendar.ts";
import { escapeControls, escapeJson } from "../base/text/mod.ts";
import type { Invocation } from "./invocation.ts";
import { hangText, wrapText } from "./wrap_text.ts";

type Fields = Readonly<Record<string, unknown>>;

/** The rows of a list. */
export type Pages<Row> = AsyncIterable<readonly Row[]> | Iterable<readonly Row[]>;

export interface RowForms<Row> {
  readonly toCells: (row: Row) => Fields;
  readonly toJson: (row: Row) => unknown;
}

/** Prints the result of a command: for people, or with `--json` as one document for programs. */
export type Printer = ReturnType<typeof createPrinter>;

/** Creates the printer of a command. */
export function createPrinter(invocation: Invocation, isJson: boolean) {
  const { out, err } = invocation;
  // Control characters are escaped, so that a terminal can show the texts of strangers without harm.
  const toJsonText = (value: unknown) => escapeJson(JSON.stringify(value, null, 2));
  const printDocument = (value: unknown) => out(`${toJsonText(value)}\n`);
  const warn = (text: string) => err(`${escapeControls(text)}\n`);
  return {
    isJson,
    /** Prints the fields of one thing; programs also get `more`. */
    fields: (fields: Fields, more?: Fields): void =>
      isJson ? printDocument({ ...fields, ...more }) : printFields(invocation, fields),
    /** Prints a table; programs get the document, by default the rows. */
    table: (rows: readonly Fields[], document: unknown = rows): void =>
      isJson ? printDocument(document) : printTable(invocation, rows),
    /** Prints the rows of a long list page by page, as `table` prints them: the rows, or their documents for programs. */
    async rows<Row>(pages: Pages<Row>, { toCells, toJson }: RowForms<Row>): Promise<void> {
      const addToTable = createTable(invocation);
      let isEmpty = true;
      for await (const rows of pages) {
        if (rows.length === 0) continue;
        // Without the brackets of this page's array: one array has the rows of all pages.
        if (isJson) out((isEmpty ? "[" : ",") + toJsonText(rows.map(toJson)).slice(1, -2));
        else addToTable(rows.map(toCells));
        isEmpty = false;
      }
      if (isJson) out(isEmpty ? "[]\n" : "\n]\n");
      else if (isEmpty) printTable(invocation, []);
    },
    /**
     * Prints rows as they come, when their reader takes them: parts of a table, or for programs one document a line. Stops
     * when nobody reads the output any more.
     */
    async stream<Row>(pages: Pages<Row>, { toCells, toJson }: RowForms<Row>): Promise<void> {
      const { write = async (text: string) => out(text), outputFault } = invocation;
      let table = "";
      const addToTable = createTable({ ...invocation, out: (text) => (table += text) });
      for await (const rows of pages) {
        if (isJson) await write(rows.map((row) => `${escapeJson(JSON.stringify(toJson(row)))}\n`).join(""));
        else {
          table = "";
          addToTable(rows.map(toCells));
          await write(table);
        }
        if (outputFault?.() !== undefined) return;
      }
    },
    /** Prints one line; programs get the document, if there is one. */
    line(text: string, document?: Fields): void {
      if (!isJson) out(`${escapeControls(text)}\n`);
      else if (document !== undefined) printDocument(document);
    },
    /** Prints the document, with or without `--json`. */
    document: printDocument,
    /** Prints a note for people to standard error, so that it is not a part of the command's result. */
    note: (text: string): void => (isJson ? undefined : warn(text)),
    /** Prints a note for people to standard error, also with `--json`. */
    warn,
  };
}

/** Prints why a command failed, to standard error. */
export function printFailure({ err, isTerminal, hasColours }: Invocation, why: string): void {
  err(`${paint("claviger:", "red", isTerminal && hasColours)} ${escapeControls(why)}\n`);
}

/** Returns the word in a colour if `isShown`, otherwise unchanged. Only a terminal shows colours. */
export function paint(word: string, colour: "green" | "yellow" | "red", isShown: boolean): string {
  return isShown ? styleText(colour, word, { validateStream: false }) : word;
}

/** Prints each field: its name and its value. On a terminal, a longer value is broken between words. */
export function printFields(invocation: Invocation, fields: Fields): void {
  const width = Math.max(...Object.keys(fields).map((name) => name.length)) + GAP.length;
  for (const [name, value] of Object.entries(fields)) {
    const text = hangText(toText(value), { indent: width, columns: invocation.columns });
    invocation.out(`${name.padEnd(width)}${text}\n`);
  }
}

/**
 * Prints a table with a heading for each column; columns of numbers are aligned to the right. If the terminal is
 * narrower than the table, the heading and each row continue in further lines; a longer text is broken between words. A
 * column of long texts is best the last one, because a short text in it then fits on the line of the other cells.
 */
export function printTable(invocation: Invocation, rows: readonly Fields[]): void {
  if (rows.length === 0) invocation.out("none\n");
  else createTable(invocation)(rows);
}

/** A number as people write it: `335,524`. */
const COUNT = /^\d{1,3}(,\d{3})*$/;

/**
 * Returns a function that prints rows as the next part of a table. The first part decides how columns are aligned and,
 * unless a later part needs more, how wide they are.
 */
function createTable({ out, columns: most = Number.POSITIVE_INFINITY }: Invocation) {
  const shapes = new Map<string, { readonly isNumeric: boolean; width: number }>();
  return (rows: readonly Fields[]) => {
    const isFirst = shapes.size === 0;
    const columns = Object.keys(rows[0] ?? {}).map((name) => {
      const cells = rows.map((row) => toText(row[name]));
      const isNumeric = rows.every((row) => typeof row[name] === "number" || COUNT.test(`${row[name]}`));
      const shape = shapes.get(name) ?? { isNumeric, width: name.length };
      shapes.set(name, shape);
      shape.width = cells.reduce((widest, cell) => Math.max(widest, cell.length), shape.width);
      const pad = (text: string) => (shape.isNumeric ? text.padStart(shape.width) : text.padEnd(shape.width));
      const heading = isFirst ? [name.toUpperCase().replaceAll("_", " ")] : [];
      return { width: shape.width, cells: [...heading, ...cells].map(pad) };
    });
    out(renderLines(columns, most));
  };
}

/** Renders the cells as lines of at most `most` characters. */
function renderLines(columns: readonly Column[], most: number): string {
  const lines = foldColumns(columns, most);
  const rows = columns[0]?.cells.length ?? 0;
  let table = "";
  for (let row = 0; row < rows; row++) {
    const texts = lines.map((line) => line.map(({ cells }) => cells[row]).join(GAP));
    const [before = [], last = []] = lines.slice(-2);
    if (lines.length > 1 && last.length === 1) {
      const joined = fitLine([...before, ...last], {
        row,
        most: lines.length > 2 ? most - GAP.length : most,
      });
      if (joined !== undefined) texts.splice(-2, 2, joined);
    }
    const parts = texts.flatMap((text, index) => {
      // Only the first line has no indent.
      const isWhole = index === 0 && text.trimEnd().length <= most;
      return wrapText(text, isWhole ? most : most - GAP.length);
    });
    table += `${parts.join(`\n${GAP}`)}\n`;
  }
  return table;
}

/**
 * Returns the cells of a row on one line; undefined if they are longer than `most` characters. A cell begins where its column
 * begins, or to the left of it if the cells behind it need the room: one long cell elsewhere in a column must not break
 * every row.
 */
function fitLine(
  columns: readonly Column[],
  { row, most }: { readonly row: number; readonly most: number },
): string | undefined {
  const cells = columns.map((column) => (column.cells[row] ?? "").trimEnd());
  let rest = cells.join(GAP).length;
  if (rest > most) return undefined;
  let [line, start] = ["", 0];
  for (const [index, cell] of cells.entries()) {
    line = line.padEnd(Math.min(start, most - rest)) + cell;
    rest -= cell.length + GAP.length;
    start += (columns[index]?.width ?? 0) + GAP.length;
  }
  return line;
}

const GAP = "  ";

interface Column {
  readonly width: number;
  readonly cells: readonly string[];
}

/** Distributes the columns over lines of at most `most` characters. A column that is wider gets its own line. */
function foldColumns(columns: readonly Column[], most: number): Column[][] {
  const lines: Column[][] = [];
  let left = 0;
  for (const column of columns) {
    left -= GAP.length + column.width;
    if (left < 0) {
      lines.push([]);
      left = most - column.width - (lines.length === 1 ? 0 : GAP.length);
    }
    lines.at(-1)?.push(column);
  }
  return lines;
}

/** Writes a value as one line, with control characters escaped, because strangers wrote some of the values. */
function toText(value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (value instanceof Date) return toTimestamp(value);
  return escapeControls(typeof value === "object" ? JSON.stringify(value) : String(value));
}
